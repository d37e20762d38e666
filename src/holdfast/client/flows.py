"""Flows: make them, wait for them, look at them, act on them: `app.flow(…)` and `app.flows`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..errors import FlowNotFound, FlowNotSucceeded
from ..flows.flow import Extension, Flow
from ..flows.handle import FlowHandle
from ..handle import Job
from ..ids import ids
from ..model.flow import (
    CancelPolicy,
    Edge,
    FlowCancel,
    FlowEnd,
    FlowFilter,
    FlowGraph,
    FlowRecord,
    FlowSpec,
    FlowState,
    FlowStatus,
    JoinChange,
    Mode,
    Rest,
)  # fmt: skip
from ..model.job import Ended, JobState
from ..names import check_id, check_name
from ..rules.graph import join_of
from ..storage.ops import flow_reads, insight, tenancy
from ..storage.ops import flows as ops
from ..storage.port import Op, Store, Tx
from ..tasks import JobRequest
from ..transactions import joined
from . import flowops
from .calls import composed, reads, writes
from .enqueuer import Enqueuer
from .flowops import check_filter, flow_id_of
from .flowplans import plan_edges, plan_extension, plan_flow, plan_staged
from .jobs import Jobs, id_of
from .lines import Line
from .scope import EVERYTHING, Scope
from .stock import acheck_stock, check_stock
from .watch import Watch


class Flows:
    """The flows of one app. Each method has an awaiting twin with an `a` before its name."""

    def __init__(
        self,
        store: Callable[[], Store],
        jobs: Jobs,
        enqueuer: Enqueuer,
        require_known: Callable[[JobRequest[Any]], None],
        scope: Scope = EVERYTHING,
    ) -> None:
        self._store = store
        self._scope = scope
        self._enqueuer = enqueuer
        self._require_known = require_known
        self.jobs = jobs
        self._watch = Watch(
            store,
            "flow",
            lambda flow_ids: _ended(flow_ids, scope),
            lambda flow_ids: Op(lambda tx: tenancy.owned_flows_of(tx, scope.tenant, flow_ids), single=True),
            lambda flow_id: scope.sees_flow(flow_id, Op(lambda tx: flow_reads.get_flow(tx, flow_id))),
        )

    def handle(self, flow_id: str) -> FlowHandle:
        """The handle of a flow by its id."""
        return FlowHandle(self, flow_id_of(flow_id))

    # -- look

    @reads
    def status(self, flow_id: str) -> Op[FlowStatus]:
        """A flow, its state, and how many of its members are in each. FlowNotFound if there is none."""
        return self._scope.sees_flow(flow_id, _status(flow_id_of(flow_id)))

    astatus = status.awaiting

    @reads
    def find(self, wanted: FlowFilter | None = None) -> Op[list[FlowRecord]]:
        """Flows, newest first."""
        return flowops.find(self._wanted(wanted))

    afind = find.awaiting

    @reads
    def counts(self, flow_ids: Sequence[str]) -> Op[dict[str, dict[str, int]]]:
        """Of several flows at once: how many members are in each state."""
        return flowops.counts(flow_ids, self._scope.tenant)

    acounts = counts.awaiting

    @reads
    def graph(self, flow_id: str) -> Op[FlowGraph]:
        """The members of a flow, and which of them wait for which."""
        return self._scope.sees_flow(flow_id, flowops.graph(flow_id))

    agraph = graph.awaiting

    def wait(self, flow_id: str, timeout: float | None = None) -> FlowStatus:
        """Block until every member has ended. ResultTimeout if that is not so by then."""
        self._watch.wait(flow_id_of(flow_id), timeout)
        return self.status(flow_id)

    async def await_(self, flow_id: str, timeout: float | None = None) -> FlowStatus:
        await self._watch.await_(flow_id_of(flow_id), timeout)
        return await self.astatus(flow_id)

    def result(self, flow_id: str, timeout: float | None = None) -> Any:
        """Wait for a flow, and give the result of its sink, or those of several by name."""
        self._watch.wait(flow_id_of(flow_id), timeout)
        return self._result(self._store().read(self._scope.sees_flow(flow_id, flowops.outcome(flow_id))))

    async def aresult(self, flow_id: str, timeout: float | None = None) -> Any:
        await self._watch.await_(flow_id_of(flow_id), timeout)
        return self._result(await self._store().aread(self._scope.sees_flow(flow_id, flowops.outcome(flow_id))))

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
        """Cancel what has not ended, as far as the policy goes. Repeated, it tells what the first one did."""
        done = await line.write(self._scope.owns_flow(flow_id, flowops.cancel(flow_id, policy, reason, actor)))
        while await line.write(Op(lambda tx: ops.cancel_page(tx, flow_id))):
            pass
        return replace(done, members=await line.read(flowops.cancelled_members(flow_id, done.at)))

    acancel = cancel.awaiting

    @writes
    def retry(self, flow_id: str, *, actor: str = "app", reason: str = "") -> Op[list[str]]:
        """Run again what failed, expired or was cancelled, and what was skipped for its sake; the ids of those jobs."""
        return self._scope.owns_flow(flow_id, flowops.retry(flow_id, actor, reason))

    aretry = retry.awaiting

    @writes
    def replay(self, job_id: str, *, downstream: bool = True, actor: str = "app", reason: str = "") -> Op[list[str]]:
        """Run a member again, and with `downstream` all that wait for it; the ids of those jobs."""
        return self._scope.owns(job_id, flowops.replay(job_id, downstream, actor, reason))

    areplay = replay.awaiting

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
        """Change how many upstreams a member needs that still waits: `all`, `any`, or a `quorum` of `needed`.

        If the new join is met already, the member starts; if it can no longer be met, the member is skipped.
        IllegalMove once the join has fired, or where the job has none; InvalidFlow for a quorum that cannot be.
        """
        return self._setting_join(id_of(job), needs, needed, rest, actor, reason)

    aset_join = set_join.awaiting

    # -- piece by piece, for those who have no builder

    @writes
    def begin(self, name: str, *, id: str | None = None, tenant: str | None = None) -> Op[FlowRecord]:
        """Store a flow without members. Nothing of it runs before `apply`.

        A repeated call with the same `id` and name makes nothing new: its answer is the flow that is there.
        """
        spec = self._begun(name, id, tenant)
        return Op(lambda tx: ops.create_flow(tx, spec))

    abegin = begin.awaiting

    def add(self, flow: FlowRecord, requests: Mapping[str, JobRequest[Any]]) -> dict[str, str]:
        """Add jobs by name, which wait for `apply`; their ids by name."""
        with self._enqueuer.around(check_stock(self._known(requests.values()))) as trace:
            members = plan_staged(requests, flow.tenant, trace)
            self._store().write(self._scope.owns_flow(flow.id, flowops.add(flow.id, members)))
        return {member.name: member.spec.id for member in members}

    async def aadd(self, flow: FlowRecord, requests: Mapping[str, JobRequest[Any]]) -> dict[str, str]:
        with self._enqueuer.around(await acheck_stock(self._known(requests.values()))) as trace:
            members = plan_staged(requests, flow.tenant, trace)
            await self._store().awrite(self._scope.owns_flow(flow.id, flowops.add(flow.id, members)))
        return {member.name: member.spec.id for member in members}

    @writes
    def stage(self, flow_id: str, edges: Sequence[Edge], *, revision: int) -> Op[int]:
        """Plan edges between members, if nobody has changed the graph since that revision; the new one."""
        return self._scope.owns_flow(flow_id, flowops.stage(flow_id, edges, revision))

    astage = stage.awaiting

    @writes
    def apply(self, flow_id: str) -> Op[int]:
        """Make the planned edges count, and let go what waits for nothing; how many edges. Repeated, it finds none."""
        return self._scope.owns_flow(flow_id, flowops.apply(flow_id))

    aapply = apply.awaiting

    # -- what a flow asks

    def create(self, flow: Flow) -> None:
        """Store a flow, in our own transaction or in the caller's."""
        with self._enqueuer.around(check_stock(self._known(node.request for node in flow.nodes))) as trace:
            self._scope.of(flow.tenant)
            spec, store = plan_flow(flow, trace), self._store()
            op, connection = Op(lambda tx: ops.create_flow(tx, spec)), joined(self._store, flow.connection)
            store.write(op) if connection is None else store.within(connection, op)

    async def acreate(self, flow: Flow) -> None:
        with self._enqueuer.around(await acheck_stock(self._known(node.request for node in flow.nodes))) as trace:
            self._scope.of(flow.tenant)
            spec, store = plan_flow(flow, trace), self._store()
            op, connection = Op(lambda tx: ops.create_flow(tx, spec)), joined(self._store, flow.connection)
            await (store.awrite(op) if connection is None else store.awithin(connection, op))

    def extend(self, extension: Extension) -> None:
        """Add members to the flow of a running job."""
        with self._enqueuer.around(check_stock(self._known(node.request for node in extension.nodes))) as trace:
            self._store().write(self._scope.owns(extension.me.id, _extending(extension, trace)))

    async def aextend(self, extension: Extension) -> None:
        with self._enqueuer.around(await acheck_stock(self._known(node.request for node in extension.nodes))) as trace:
            await self._store().awrite(self._scope.owns(extension.me.id, _extending(extension, trace)))

    def renew(self) -> None:
        self._watch.renew()

    def _wanted(self, wanted: FlowFilter | None) -> FlowFilter:
        wanted = check_filter(wanted or FlowFilter())
        return replace(wanted, tenant=self._scope.within(wanted.tenant))

    def _setting_join(
        self, job_id: str, needs: Mode, needed: int | None, rest: Rest, actor: str, reason: str
    ) -> Op[JoinChange]:
        join = join_of(needs, needed, rest, of=f"job {job_id}")
        return self._scope.owns(job_id, flowops.set_join(job_id, join, actor, reason))

    def _begun(self, name: str, id: str | None, tenant: str | None) -> FlowSpec:
        whose = self._scope.of(tenant) or ""
        own = ids.new() if id is None else check_id(id)
        return FlowSpec(id=own, name=check_name("the flow's name", name), tenant=whose)

    def _known(self, requests: Iterable[JobRequest[Any]]) -> list[JobRequest[Any]]:
        known = list(requests)
        for request in known:
            self._require_known(request)
        return known

    def _result(self, outcome: flowops.Outcome) -> Any:
        record, ends, failures = outcome
        if record.state is not FlowState.SUCCEEDED:
            raise FlowNotSucceeded(record.id, record.state, failures)
        found = {end.name: self._decoded(end) for end in ends if end.state is JobState.SUCCEEDED}
        return found.get(ends[0].name) if len(ends) == 1 else found

    def _decoded(self, end: FlowEnd) -> Any:
        return self.jobs.decode_result(Ended(end.id, end.state, end.result, end.error, end.reason), end.task)


def _status(flow_id: str) -> Op[FlowStatus]:
    async def look(tx: Tx) -> FlowStatus:
        record = await flow_reads.get_flow(tx, flow_id)
        return FlowStatus(record, record.state, await flow_reads.flow_counts(tx, flow_id))

    return Op(look)


def _ended(flow_ids: Sequence[str], scope: Scope) -> Op[list[FlowRecord]]:
    async def look(tx: Tx) -> list[FlowRecord]:
        found: list[FlowRecord] = []
        for flow_id in flow_ids:
            with suppress(FlowNotFound):  # deleted while somebody waited; the others are not to suffer
                found.append(await flow_reads.get_flow(tx, flow_id))
        return [flow for flow in found if flow.finished_at is not None and scope.tenant in (None, flow.tenant)]

    return Op(look)


def _extending(extension: Extension, trace: str | None) -> Op[FlowRecord]:
    async def run(tx: Tx) -> FlowRecord:
        me = await insight.get_job(tx, extension.me.id)
        members = plan_extension(extension, me.member or me.task, me.tenant, trace)
        edges = plan_edges(extension.nodes)
        return await ops.add_members(tx, extension.flow_id, members, edges, by=extension.holder)

    return Op(run)
