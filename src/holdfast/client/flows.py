"""Flows: create them, wait for them, read them, act on them: `app.flow(…)` and `app.flows`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

from .. import importing
from ..errors import FlowNotFound, FlowNotSucceeded, ForeignMember, InvalidInput
from ..flows.builder import Node
from ..flows.flow import Extension, Flow
from ..flows.handle import FlowHandle
from ..flows.joins import edges_to
from ..ids import ids
from ..model.flows import (  # fmt: skip  # fmt: skip
    CancelPolicy,
    Edge,
    FlowCancel,
    FlowEnd,
    FlowFilter,
    FlowGraph,
    FlowInfo,
    FlowRecord,
    FlowSpec,
    FlowState,
    FlowStatus,
    JoinChange,
    Member,
    Mode,
    Rest,
)
from ..model.jobs import Ended, JobSpec, JobState
from ..names import check_id, check_name
from ..rules.flows import join_of
from ..storage.ops import tenants
from ..storage.ops.flows import flow_reads
from ..storage.ops.flows import flows as ops
from ..storage.ops.jobs import queries
from ..storage.port import Op, Store, Tx
from ..tasks.job import Job, explain_end
from ..tasks.task import JobRequest
from ..values import codec
from ..values.references import MISSING, Use, encode_inputs
from .calls import composed, reads, writes
from .enqueuer import Enqueuer, acheck_inventory, check_inventory
from .jobs import Jobs, id_of
from .lines import Line
from .scope import EVERYTHING, Scope
from .specs import spec_of
from .transactions import joined
from .watch import Watch

MOST_COUNTED: Final = 1_000
Outcome: TypeAlias = "tuple[FlowRecord, list[FlowEnd], dict[str, str]]"
"""A flow, its last members, and why others did not succeed."""


class Flows:
    """The flows of one app. Each method has an async version with an `a` before its name."""

    def __init__(
        self,
        store: Callable[[], Store],
        jobs: Jobs,
        enqueuer: Enqueuer,
        check: Callable[..., None],
        scope: Scope = EVERYTHING,
    ) -> None:
        self._store = store
        self._scope = scope
        self._enqueuer = enqueuer
        self._check = check
        self.jobs = jobs
        self._watch = Watch(
            store,
            "flow",
            lambda flow_ids: _ended(flow_ids, scope),
            lambda flow_ids: Op(lambda tx: tenants.owned_flows_of(tx, scope.tenant, flow_ids), single=True),
            lambda flow_id: scope.sees_flow(flow_id, Op(lambda tx: flow_reads.get_flow(tx, flow_id))),
        )

    def handle(self, flow_id: str) -> FlowHandle:
        """Return the handle of a flow by its id."""
        return FlowHandle(self, _flow_id(flow_id))

    # -- look

    @reads
    def status(self, flow_id: str) -> Op[FlowStatus]:
        """Return a flow, its state, and the number of members in each state. FlowNotFound if there is none."""
        return self._scope.sees_flow(flow_id, _status(_flow_id(flow_id)))

    astatus = status.awaiting

    @reads
    def find(self, wanted: FlowFilter | None = None) -> Op[list[FlowInfo]]:
        """Return flows, newest first."""
        asked = self._wanted(wanted)

        async def run(tx: Tx) -> list[FlowInfo]:
            return [flow.shown for flow in await flow_reads.list_flows(tx, asked)]

        return Op(run)

    afind = find.awaiting

    @reads
    def counts(self, flow_ids: Sequence[str]) -> Op[dict[str, dict[str, int]]]:
        """Return how many members of each of these flows are in each state."""
        asked, tenant = [_flow_id(flow_id) for flow_id in flow_ids], self._scope.tenant
        if len(asked) > MOST_COUNTED:
            raise InvalidInput(f"{len(asked):,} flows are asked for; ask for at most {MOST_COUNTED:,} at once")
        return Op(lambda tx: flow_reads.counts_of_flows(tx, asked, tenant))

    acounts = counts.awaiting

    @reads
    def graph(self, flow_id: str) -> Op[FlowGraph]:
        """Return the members of a flow and their dependencies."""
        return self._scope.sees_flow(flow_id, Op(lambda tx: flow_reads.flow_graph(tx, _flow_id(flow_id))))

    agraph = graph.awaiting

    @composed
    async def wait(self, line: Line, flow_id: str, timeout: float | None = None) -> FlowStatus:
        """Wait until every member has ended. ResultTimeout if they have not by then."""
        await line.call(self._watch.wait, self._watch.await_, _flow_id(flow_id), timeout)
        return await line.read(self._scope.sees_flow(flow_id, _status(flow_id)))

    await_ = wait.awaiting

    @composed
    async def result(self, line: Line, flow_id: str, timeout: float | None = None) -> Any:
        """Wait for a flow, and return the result of its sink, or those of several by name."""
        await line.call(self._watch.wait, self._watch.await_, _flow_id(flow_id), timeout)
        return self._result(await line.read(self._scope.sees_flow(flow_id, _outcome(flow_id))))

    aresult = result.awaiting

    # -- act

    @composed
    async def cancel(
        self,
        line: Line,
        flow_id: str,
        policy: CancelPolicy | str = CancelPolicy.CANCEL_ALL,
        *,
        reason: str = "cancelled",
        actor: str = "app",
    ) -> FlowCancel:
        """Cancel the members that have not ended, by the policy. A repeated call returns what the first one did."""
        begin = Op(lambda tx: ops.cancel_flow(tx, _flow_id(flow_id), policy, reason=reason, actor=actor))
        done = await line.write(self._scope.owns_flow(flow_id, begin))
        while await line.write(Op(lambda tx: ops.cancel_page(tx, flow_id))):
            pass
        reached = Op(lambda tx: ops.cancelled_members(tx, flow_id, done.at), single=True)
        return FlowCancel(
            flow_id=flow_id,
            policy=done.policy,
            reason=done.reason,
            again=done.again,
            changed=not done.again,
            members=await line.read(reached),
        )

    acancel = cancel.awaiting

    @writes
    def retry(self, flow_id: str, *, actor: str = "app", reason: str = "") -> Op[list[str]]:
        """Rerun members that failed, expired or were cancelled, and those skipped because of them; return their ids."""
        op = Op(lambda tx: ops.retry_flow(tx, _flow_id(flow_id), actor=actor, reason=reason))
        return self._scope.owns_flow(flow_id, op)

    aretry = retry.awaiting

    @writes
    def retry_member(
        self, job_id: str, *, downstream: bool = True, actor: str = "app", reason: str = ""
    ) -> Op[list[str]]:
        """Run a member again, and with `downstream` all that wait for it; return the ids of those jobs."""
        job_id = check_name("the id", job_id)
        op = Op(lambda tx: ops.retry_member(tx, job_id, downstream=downstream, actor=actor, reason=reason))
        return self._scope.owns(job_id, op)

    aretry_member = retry_member.awaiting

    @writes
    def set_join(
        self,
        job: Job[Any] | str,
        needs: Mode,
        *,
        needed: int | None = None,
        rest: Rest = "run",
        actor: str = "",
        reason: str = "",
    ) -> Op[JoinChange]:
        """Change how many upstreams a waiting member needs: `all`, `any`, or a `quorum` of `needed`.

        If the new join is met already, the member starts; if it can no longer be met, the member is skipped.
        IllegalMove once the join has fired, or where the job has none; InvalidFlow for a quorum that cannot be.
        """
        job_id = id_of(job)
        join = join_of(needs, needed, rest, of=f"job {job_id}")
        return self._scope.owns(job_id, Op(lambda tx: ops.set_join(tx, job_id, join, actor=actor, reason=reason)))

    aset_join = set_join.awaiting

    # -- piece by piece, for clients without a builder

    @writes
    def begin(self, name: str, *, id: str | None = None, tenant: str | None = None) -> Op[FlowInfo]:
        """Store a flow without members. Nothing of it runs before `apply`.

        A repeated call with the same `id` and name changes nothing and returns the existing flow.
        """
        whose = self._scope.of(tenant) or ""
        own = ids.new() if id is None else check_id(id)
        spec = FlowSpec(id=own, name=check_name("the flow's name", name), tenant=whose)

        async def run(tx: Tx) -> FlowInfo:
            return (await ops.create_flow(tx, spec)).shown

        return Op(run)

    abegin = begin.awaiting

    @composed
    async def add(self, line: Line, flow: FlowInfo, requests: Mapping[str, JobRequest[Any]]) -> dict[str, str]:
        """Add jobs by name, which wait for `apply`; return their ids by name."""
        async with self._around(line, requests.values()) as trace:
            members = plan_staged(requests, flow.tenant, trace)
            op = Op(lambda tx: ops.add_members(tx, flow.id, members, staged=True))
            await line.write(self._scope.owns_flow(flow.id, op))
        return {member.name: member.spec.id for member in members}

    aadd = add.awaiting

    @writes
    def stage(self, flow_id: str, edges: Sequence[Edge], *, revision: int) -> Op[int]:
        """Plan edges between members, if the graph is still at that revision; return the new revision."""
        op = Op(lambda tx: ops.stage_edges(tx, _flow_id(flow_id), edges, revision))
        return self._scope.owns_flow(flow_id, op)

    astage = stage.awaiting

    @writes
    def apply(self, flow_id: str) -> Op[int]:
        """Apply the planned edges, and release members that wait for nothing; return the number of edges."""
        return self._scope.owns_flow(flow_id, Op(lambda tx: ops.apply_edges(tx, _flow_id(flow_id))))

    aapply = apply.awaiting

    # -- for flows

    @composed
    async def create(self, line: Line, flow: Flow) -> None:
        """Store a flow, in our own transaction or in the caller's."""
        if importing.module is not None:
            importing.warn_of_enqueue()
        async with self._around(line, (node.request for node in flow.nodes)) as trace:
            self._scope.of(flow.tenant)
            spec = plan_flow(flow, trace)
            await line.join(joined(self._store, flow.connection), Op(lambda tx: ops.create_flow(tx, spec)))

    acreate = create.awaiting

    @composed
    async def extend(self, line: Line, extension: Extension) -> None:
        """Add members to the flow of a running job."""
        async with self._around(line, (node.request for node in extension.nodes)) as trace:
            await line.write(self._scope.owns(extension.me.id, _extending(extension, trace)))

    aextend = extend.awaiting

    def renew(self) -> None:
        self._watch.renew()

    def _wanted(self, wanted: FlowFilter | None) -> FlowFilter:
        wanted = _checked(wanted or FlowFilter())
        return replace(wanted, tenant=self._scope.within(wanted.tenant))

    @asynccontextmanager
    async def _around(self, line: Line, requests: Iterable[JobRequest[Any]]) -> AsyncIterator[str | None]:
        """Check that each of these jobs can be enqueued; yield the trace to store with them."""
        known = list(requests)
        for request in known:
            self._check(request, in_flow=True)
        await line.call(check_inventory, acheck_inventory, known)
        with self._enqueuer.tracing(known) as trace:
            yield trace

    def _result(self, outcome: Outcome) -> Any:
        record, ends, failures = outcome
        if record.state is not FlowState.SUCCEEDED:
            raise FlowNotSucceeded(record.id, record.state, failures)
        found = {end.name: self._decoded(end) for end in ends if end.state is JobState.SUCCEEDED}
        return found.get(ends[0].name) if len(ends) == 1 else found

    def _decoded(self, end: FlowEnd) -> Any:
        return self.jobs.decode_result(Ended(end.id, end.state, end.result, end.error, end.reason), end.task)


def plan_flow(flow: Flow, trace: str | None) -> FlowSpec:
    """Return the whole flow as one value."""
    return FlowSpec(
        id=flow.id,
        name=flow.name,
        tenant=flow.tenant,
        members=tuple(plan_member(node, flow.tenant, trace) for node in flow.nodes),
        edges=tuple(plan_edges(flow.nodes)),
        on_success=_callback(flow.on_success, flow.tenant, trace),
        on_failure=_callback(flow.on_failure, flow.tenant, trace),
    )


def plan_extension(extension: Extension, name: str, tenant: str, trace: str | None) -> list[Member]:
    """Return members whose names begin with the name and generation of the member that adds them."""
    life = f"{name}~{extension.generation}" if extension.generation else name
    planned = [plan_member(node, tenant, trace) for node in extension.nodes]
    return [replace(member, name=f"{life}/{member.name}") for member in planned]


def plan_member(node: Node, tenant: str, trace: str | None) -> Member:
    request, member = node.request, node.member
    if request.options.tenant not in (None, tenant):
        raise ForeignMember(
            f"{member.name!r} is for tenant {request.options.tenant!r}, its flow for {tenant!r}; leave its tenant out"
        )
    return Member(
        spec=spec_of(request, tenant=tenant, id=member.id, trace=trace),
        name=member.name,
        join=node.after.join,
        inputs=_inputs(request.uses),
    )


def plan_edges(nodes: Sequence[Node]) -> list[Edge]:
    return [edge for node in nodes for edge in edges_to(node.member, node.after)]


def plan_staged(requests: Mapping[str, JobRequest[Any]], tenant: str, trace: str | None) -> list[Member]:
    """Return jobs by name, without dependencies."""
    named = zip(requests.items(), ids.many(len(requests)), strict=True)
    return [
        Member(spec=spec_of(request.complete(), tenant=tenant, id=new, trace=trace), name=name)
        for (name, request), new in named
    ]


def _inputs(uses: Sequence[Use]) -> str | None:
    if not uses:
        return None
    return encode_inputs(uses, [_default(use) for use in uses])


def _default(use: Use) -> str | None:
    value = use.reference.default
    return None if value is MISSING else codec.encode(value, what=f"the default of {use.reference!r}")


def _callback(request: JobRequest[Any] | None, tenant: str, trace: str | None) -> JobSpec | None:
    return spec_of(request, tenant=tenant, trace=trace) if request is not None else None


def _checked(wanted: FlowFilter) -> FlowFilter:
    """Refuse an invalid filter."""
    if wanted.state is not None and wanted.state not in list(FlowState):
        raise InvalidInput(f"state is {wanted.state!r}; use one of {', '.join(FlowState)}")
    for what in ("name", "tenant", "before"):
        if getattr(wanted, what):
            check_name(what, getattr(wanted, what))
    if not 1 <= wanted.limit <= 10_000:
        raise InvalidInput(f"limit is {wanted.limit}; use 1 to 10,000")
    return wanted


def _status(flow_id: str) -> Op[FlowStatus]:
    async def look(tx: Tx) -> FlowStatus:
        record = await flow_reads.get_flow(tx, flow_id)
        return record.status(await flow_reads.flow_counts(tx, flow_id))

    return Op(look)


def _ended(flow_ids: Sequence[str], scope: Scope) -> Op[list[FlowRecord]]:
    async def look(tx: Tx) -> list[FlowRecord]:
        found: list[FlowRecord] = []
        for flow_id in flow_ids:
            with suppress(FlowNotFound):  # deleted while a caller waited; the other waiters are not affected
                found.append(await flow_reads.get_flow(tx, flow_id))
        return [flow for flow in found if flow.finished_at is not None and scope.tenant in (None, flow.tenant)]

    return Op(look)


def _extending(extension: Extension, trace: str | None) -> Op[FlowRecord]:
    async def run(tx: Tx) -> FlowRecord:
        me = await queries.get_job(tx, extension.me.id)
        members = plan_extension(extension, me.member or me.task, me.tenant, trace)
        edges = plan_edges(extension.nodes)
        return await ops.add_members(tx, extension.flow_id, members, edges, by=extension.holder)

    return Op(run)


def _outcome(flow_id: str) -> Op[Outcome]:
    """Read the outcome of a flow."""

    async def look(tx: Tx) -> Outcome:
        record = await flow_reads.get_flow(tx, flow_id)
        failures: dict[str, str] = {}
        if record.state is not FlowState.SUCCEEDED:
            failures = await _failures(tx, flow_id)
        return record, await flow_reads.flow_ends(tx, flow_id), failures

    return Op(look)


async def _failures(tx: Tx, flow_id: str) -> dict[str, str]:
    """Return why members did not succeed, without those that were skipped because of others."""
    bad = (JobState.FAILED, JobState.EXPIRED, JobState.CANCELLED)
    members = {m.id: m.name for m in (await flow_reads.flow_graph(tx, flow_id)).members if m.state in bad}
    ended = await queries.outcomes_of(tx, list(members))
    return {members[end.id]: explain_end(end) or end.state for end in ended}


def _flow_id(flow_id: str) -> str:
    return check_name("the flow's id", flow_id)
