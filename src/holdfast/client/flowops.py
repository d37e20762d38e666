"""What is asked of the store about flows, each as an operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from ..errors import InvalidInput
from ..handle import explain_end
from ..model.flow import (
    CancelPolicy,
    Edge,
    FlowCancel,
    FlowEnd,
    FlowFilter,
    FlowGraph,
    FlowRecord,
    FlowState,
    Join,
    JoinChange,
    Member,
)  # fmt: skip
from ..model.job import JobState
from ..names import check_name
from ..storage.ops import flow_reads, insight
from ..storage.ops import flows as ops
from ..storage.port import Op, Tx

MOST_COUNTED: Final = 1_000
Outcome: TypeAlias = "tuple[FlowRecord, list[FlowEnd], dict[str, str]]"
"""A flow, its last members, and why others did not succeed."""


def check_filter(wanted: FlowFilter) -> FlowFilter:
    """Refuse what cannot be meant."""
    if wanted.state is not None and wanted.state not in list(FlowState):
        raise InvalidInput(f"state is {wanted.state!r}; use one of {', '.join(FlowState)}")
    for what in ("name", "tenant", "before"):
        if getattr(wanted, what):
            check_name(what, getattr(wanted, what))
    if not 1 <= wanted.limit <= 10_000:
        raise InvalidInput(f"limit is {wanted.limit}; use 1 to 10,000")
    return wanted


def find(wanted: FlowFilter) -> Op[list[FlowRecord]]:
    """Flows, newest first."""
    return Op(lambda tx: flow_reads.list_flows(tx, wanted))


def counts(flow_ids: Sequence[str], tenant: str | None) -> Op[dict[str, dict[str, int]]]:
    """Of several flows: how many members are in each state."""
    asked = [flow_id_of(flow_id) for flow_id in flow_ids]
    if len(asked) > MOST_COUNTED:
        raise InvalidInput(f"{len(asked):,} flows are asked for; ask for at most {MOST_COUNTED:,} at once")
    return Op(lambda tx: flow_reads.counts_of_flows(tx, asked, tenant))


def graph(flow_id: str) -> Op[FlowGraph]:
    """Its members and edges."""
    return Op(lambda tx: flow_reads.flow_graph(tx, flow_id_of(flow_id)))


def outcome(flow_id: str) -> Op[Outcome]:
    """What it came to."""

    async def look(tx: Tx) -> Outcome:
        record = await flow_reads.get_flow(tx, flow_id)
        failures: dict[str, str] = {}
        if record.state is not FlowState.SUCCEEDED:
            failures = await _failures(tx, flow_id)
        return record, await flow_reads.flow_ends(tx, flow_id), failures

    return Op(look)


def cancel(flow_id: str, policy: CancelPolicy | str, reason: str, actor: str) -> Op[FlowCancel]:
    """Begin to cancel it."""
    return Op(lambda tx: ops.cancel_flow(tx, flow_id_of(flow_id), policy, reason=reason, actor=actor))


def cancelled_members(flow_id: str, at: int) -> Op[tuple[str, ...]]:
    """The jobs that a cancel of that time reached."""
    return Op(lambda tx: ops.cancelled_members(tx, flow_id, at), single=True)


def retry(flow_id: str, actor: str, reason: str) -> Op[list[str]]:
    """Run the failed part again."""
    return Op(lambda tx: ops.retry_flow(tx, flow_id_of(flow_id), actor=actor, reason=reason))


def replay(job_id: str, downstream: bool, actor: str, reason: str) -> Op[list[str]]:
    """Run a member again."""
    job_id = check_name("the id", job_id)
    return Op(lambda tx: ops.replay_member(tx, job_id, downstream=downstream, actor=actor, reason=reason))


def set_join(job_id: str, join: Join, actor: str, reason: str) -> Op[JoinChange]:
    """Change the join of a member that still waits."""
    job_id = check_name("the id", job_id)
    return Op(lambda tx: ops.set_join(tx, job_id, join, actor=actor, reason=reason))


def add(flow_id: str, members: Sequence[Member]) -> Op[FlowRecord]:
    """Add members that wait for `apply`."""
    return Op(lambda tx: ops.add_members(tx, flow_id, members, staged=True))


def stage(flow_id: str, edges: Sequence[Edge], revision: int) -> Op[int]:
    """Plan edges."""
    return Op(lambda tx: ops.stage_edges(tx, flow_id_of(flow_id), edges, revision))


def apply(flow_id: str) -> Op[int]:
    """Make planned edges count."""
    return Op(lambda tx: ops.apply_edges(tx, flow_id_of(flow_id)))


def flow_id_of(flow_id: str) -> str:
    """A flow's id, checked."""
    return check_name("the flow's id", flow_id)


async def _failures(tx: Tx, flow_id: str) -> dict[str, str]:
    """Why members did not succeed; those that were skipped for the sake of others are left out."""
    bad = (JobState.FAILED, JobState.EXPIRED, JobState.CANCELLED)
    members = {m.id: m.name for m in (await flow_reads.flow_graph(tx, flow_id)).members if m.state in bad}
    ended = await insight.outcomes_of(tx, list(members))
    return {members[end.id]: explain_end(end) or end.state for end in ended}
