"""Flows, their members, and which of those wait for which."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..model.flows import (  # fmt: skip
    CancelPolicy,
    EdgeRecord,
    FlowCancel,
    FlowGraph,
    FlowRecord,
    FlowState,
    FlowStatus,
    JoinChange,
    MemberRecord,
    Mode,
    Policy,
    Rest,
)
from ..model.jobs import JobState
from ..model.values import instant_of


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """A flow in a list. `live` of its members have not ended; `revision` is that of its graph."""

    id: str
    name: str
    tenant: str
    state: FlowState
    members: int
    live: int
    revision: int
    cancel_policy: str | None
    cancel_reason: str | None
    cancel_requested_at: datetime | None
    created_at: datetime | None
    finished_at: datetime | None


class FlowDetail(Flow, frozen=True, kw_only=True):
    """A flow, and how many of its members are in each state; those in which there are none are left out."""

    counts: dict[str, int]


class FlowMember(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a flow. `needs` says how many upstreams it waits for: all, any, or a quorum of `needed`."""

    id: str
    name: str
    task: str
    queue: str
    state: JobState
    reason: str | None
    attempts: int
    needs: Mode | None
    needed: int | None
    rest: Rest | None
    created_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


class FlowEdge(msgspec.Struct, frozen=True, kw_only=True):
    """One member waits for another to end in this way. `met` is null until that has ended."""

    upstream: str = msgspec.field(name="from")
    downstream: str = msgspec.field(name="to")
    on: Policy
    applied: bool
    met: bool | None


class FlowShape(msgspec.Struct, frozen=True, kw_only=True):
    """The graph of a flow. Edges are between names."""

    id: str
    members: list[FlowMember]
    edges: list[FlowEdge]


class FlowCancelled(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a cancel. A repeated one returns the result of the first, with `changed` false."""

    id: str
    policy: CancelPolicy
    reason: str
    again: bool
    changed: bool
    members: list[str]
    """The ids of the jobs that it reached: those it ended, and those it asked to stop."""


class FlowAgain(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that run again; none where nothing had to."""

    id: str
    jobs: list[str]
    changed: bool


class FlowJoin(msgspec.Struct, frozen=True, kw_only=True):
    """A member's join after a change, and its state: `ready` if the join is met, `skipped` if it cannot be met."""

    id: str
    job: str
    needs: Mode
    needed: int
    rest: Rest
    upstreams: int
    state: JobState
    changed: bool


class FlowResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a flow. `failures` says why members did not succeed, by their names."""

    id: str
    state: FlowState
    ended: bool
    result: Any
    failures: dict[str, str]


class FlowMade(msgspec.Struct, frozen=True, kw_only=True):
    """A flow that was stored: the ids of its jobs by their names."""

    id: str
    name: str
    members: dict[str, str]


class FlowMembersAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the jobs by their names, and the revision of the graph now."""

    id: str
    members: dict[str, str]
    revision: int


class FlowStaged(msgspec.Struct, frozen=True, kw_only=True):
    """The revision of the graph after edges were planned."""

    id: str
    revision: int


class FlowApplied(msgspec.Struct, frozen=True, kw_only=True):
    """The number of planned edges that count from now on."""

    id: str
    applied: int
    changed: bool


def of_flow(flow: FlowRecord) -> Flow:
    return Flow(**_common(flow))


def of_flow_status(status: FlowStatus) -> FlowDetail:
    return FlowDetail(**_common(status.record), counts=status.counts)


def of_graph(graph: FlowGraph) -> FlowShape:
    names = {member.id: member.name for member in graph.members}
    return FlowShape(
        id=graph.flow.id,
        members=[of_member(member) for member in graph.members],
        edges=[_of_edge(edge, names) for edge in graph.edges],
    )


def of_member(member: MemberRecord) -> FlowMember:
    return FlowMember(
        id=member.id,
        name=member.name,
        task=member.task,
        queue=member.queue,
        state=member.state,
        reason=member.reason,
        attempts=member.attempts,
        needs=member.mode,
        needed=member.needed,
        rest=member.rest,
        created_at=instant_of(member.created_at),
        started_at=instant_of(member.started_at),
        finished_at=instant_of(member.finished_at),
    )


def of_flow_cancel(flow_id: str, done: FlowCancel) -> FlowCancelled:
    return FlowCancelled(
        id=flow_id,
        policy=done.policy,
        reason=done.reason,
        again=done.again,
        changed=not done.again,
        members=list(done.members),
    )


def of_join_change(flow_id: str, done: JoinChange) -> FlowJoin:
    return FlowJoin(
        id=flow_id,
        job=done.job_id,
        needs=done.join.mode,
        needed=done.join.needed,
        rest=done.join.rest,
        upstreams=done.upstreams,
        state=done.state,
        changed=done.changed,
    )


def _of_edge(edge: EdgeRecord, names: dict[str, str]) -> FlowEdge:
    return FlowEdge(
        upstream=names[edge.upstream],
        downstream=names[edge.downstream],
        on=edge.policy,
        applied=bool(edge.applied),
        met=None if edge.met is None else bool(edge.met),
    )


def _common(flow: FlowRecord) -> dict[str, Any]:
    return {
        "id": flow.id,
        "name": flow.name,
        "tenant": flow.tenant,
        "state": flow.state,
        "members": flow.members,
        "live": flow.live,
        "revision": flow.revision,
        "cancel_policy": flow.cancel_policy,
        "cancel_reason": flow.cancel_reason,
        "cancel_requested_at": instant_of(flow.cancel_at),
        "created_at": instant_of(flow.created_at),
        "finished_at": instant_of(flow.finished_at),
    }
