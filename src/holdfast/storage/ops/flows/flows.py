"""Create flows: in one transaction, or step by step, by a remote caller or by a running member."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ....errors import (  # fmt: skip
    Conflict,
    DuplicateJob,
    DuplicateMember,
    FlowCycle,
    FlowEnded,
    ForeignMember,
    IdTaken,
    InvalidFlow,
    LeaseLost,
    StaleRevision,
)
from ....model.flows import Edge, FlowRecord, FlowSpec, Holder, Join, Member
from ....rules import flows
from ...port import Params, Tx
from ...statements import sql
from ..jobs.enqueue import enqueue
from .edges import as_list, block, insert_edges, insert_joins, recount, settle
from .endings import encode_callback
from .flow_control import cancel_flow as cancel_flow
from .flow_control import cancel_page as cancel_page
from .flow_control import cancelled_members as cancelled_members
from .flow_control import retry_flow as retry_flow
from .flow_control import retry_member as retry_member
from .flow_control import set_join as set_join
from .flow_reads import flow_counts as flow_counts
from .flow_reads import flow_ends as flow_ends
from .flow_reads import flow_graph as flow_graph
from .flow_reads import get_flow
from .flow_reads import list_flows as list_flows


async def create_flow(tx: Tx, spec: FlowSpec) -> FlowRecord:
    """Store a whole flow; return the existing one where the id is known with the same name (a repeated call)."""
    for callback in (spec.on_success, spec.on_failure):
        if callback is not None and callback.dedupe is not None:
            raise InvalidFlow("a flow's callback cannot have a dedupe key: its last member would wait for the key")
    new = await tx.one(
        sql.insert_flow,
        id=spec.id,
        name=spec.name,
        tenant=spec.tenant,
        on_success=encode_callback(spec.on_success),
        on_failure=encode_callback(spec.on_failure),
    )
    if new is None:
        found = await get_flow(tx, spec.id)
        if (found.name, found.tenant) != (spec.name, spec.tenant):
            raise Conflict(f"flow {spec.id} exists with another name or tenant; choose another id")
        return found
    if spec.members or spec.edges:
        return await add_members(tx, spec.id, spec.members, spec.edges)
    return await get_flow(tx, spec.id)


async def add_members(
    tx: Tx,
    flow_id: str,
    members: Sequence[Member],
    edges: Sequence[Edge] = (),
    *,
    by: Holder | None = None,
    staged: bool = False,
) -> FlowRecord:
    """Add jobs to a flow that has not ended. Members that exist already, by id and name, are left unchanged.

    `by`: the run that extends its own flow; LeaseLost if it no longer owns its job. `staged`: they wait until
    `apply_edges`, whatever edges they have by then.
    """
    flow = await get_flow(tx, flow_id)
    _require_live(flow)
    flows.check_edges(edges)
    plan = await _plan(tx, flow, members, edges, by)
    if plan.fresh or plan.edges:
        flows.check_members(flow.members + len(plan.fresh))
        await _store(tx, flow, plan, staged=staged)
        await _extend(tx, flow, len(plan.fresh))
        if plan.late:
            # Check again: a transaction that changed the graph meanwhile has committed, or waits for us.
            await _whole(tx, flow)
    return await get_flow(tx, flow_id)


async def stage_edges(tx: Tx, flow_id: str, edges: Sequence[Edge], revision: int) -> int:
    """Plan edges, if the graph has not changed since `revision`; return the new revision."""
    flow = await get_flow(tx, flow_id)
    _require_live(flow)
    if flow.revision != revision:
        raise StaleRevision(f"flow {flow_id} is at revision {flow.revision}, not {revision}; read it again, and repeat")
    flows.check_edges(edges)
    ends = {id for edge in edges for id in (edge.upstream, edge.downstream)}
    members = {id for id, of, *_ in await tx.all(sql.look_at_members, ids=as_list(ends)) if of == flow_id}
    _require_members(flow, edges, members)
    await insert_edges(tx, edges, applied=False)
    try:
        await _deepen(tx, flow)
    except FlowCycle:
        # Possibly with edges that another caller has staged since: the caller must see those first.
        if (await get_flow(tx, flow_id)).revision != revision:
            raise _changed(flow_id) from None
        raise
    row = await tx.one(sql.advance_revision, id=flow_id, revision=revision)
    if row is None:
        _require_live(await get_flow(tx, flow_id))
        raise _changed(flow_id)
    return int(row[0])


def _changed(flow_id: str) -> StaleRevision:
    return StaleRevision(f"flow {flow_id} was changed this moment; read it again, and repeat")


async def apply_edges(tx: Tx, flow_id: str) -> int:
    """Apply planned edges and release staged members; return how many edges. A repeated call finds none.

    IllegalMove where a member has started that was to wait.
    """
    found = await flow_graph(tx, flow_id)
    planned = [edge for edge in found.edges if not edge.applied]
    staged = {id for (id,) in await tx.all(sql.staged_members, flow=flow_id)}
    waiting = staged | {edge.downstream for edge in planned}
    if not waiting:
        return 0
    _require_live(found.flow)
    upstreams = Counter(edge.downstream for edge in found.edges)
    for member in found.members:
        if member.id in waiting and member.mode and member.needed is not None:
            flows.check_join(Join(member.mode, member.needed), upstreams[member.id])
    # A transaction that ends one of them now waits for us, and finds the edge afterwards.
    await tx.one(sql.lock_members, ids=as_list(waiting | {edge.upstream for edge in planned}))
    await block(tx, waiting)
    await insert_joins(tx, dict.fromkeys(waiting - staged, Join()), {}, applied=False)
    await tx.all(sql.apply_planned, ids=as_list(waiting))
    await _count_all(tx, waiting)
    return len(planned)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The additions of a call to a flow, without what it repeats."""

    fresh: dict[str, Member]
    edges: list[Edge]
    old: set[str] = field(default_factory=set)
    """Existing members that the edges name."""

    @property
    def late(self) -> set[str]:
        """Return those of these that must now wait for more jobs."""
        return self.old & {edge.downstream for edge in self.edges}


async def _plan(tx: Tx, flow: FlowRecord, members: Sequence[Member], edges: Sequence[Edge], by: Holder | None) -> _Plan:
    given = {member.spec.id: member for member in members}
    if len(given) < len(members):
        raise DuplicateMember("a job was given twice; give each an id of its own")
    ends = {id for edge in edges for id in (edge.upstream, edge.downstream)}
    look = {*given, *ends} | ({by.job_id} if by else set[str]())
    # Their ends wait for our commit, and are counted or found.
    await tx.one(sql.lock_members, ids=as_list(look))
    there = {id: (of, name, tenant) for id, of, name, tenant, _ in await tx.all(sql.look_at_members, ids=as_list(look))}
    if by is not None:
        await _require_held(tx, flow, by)
    repeated = {id for id in given if id in there}
    for id in repeated:
        _require_same(flow, given[id], *there[id])
    fresh = {id: member for id, member in given.items() if id not in repeated}
    await _require_names(tx, flow, list(fresh.values()))
    old = {id for id, (of, *_) in there.items() if of == flow.id}
    _require_members(flow, edges, {*old, *fresh})
    news = [
        edge for edge in edges
        if edge.downstream not in repeated and not (edge.upstream in repeated and edge.downstream not in fresh)
    ]  # fmt: skip
    return _Plan(fresh, news, old & {id for edge in news for id in (edge.upstream, edge.downstream)})


async def _store(tx: Tx, flow: FlowRecord, plan: _Plan, *, staged: bool) -> None:
    upstreams = Counter(edge.downstream for edge in plan.edges)
    joins = {id: member.join for id, member in plan.fresh.items() if staged or upstreams[id]}
    for id, join in joins.items() if not staged else ():
        flows.check_join(join, upstreams[id])
    late = plan.late
    if not late:
        known = await tx.all(sql.depths_of, ids=as_list(plan.old)) if plan.old else []
        depths = flows.depths(plan.edges, dict(known))
    else:
        depths = dict[str, int]()
    await _insert(tx, flow, list(plan.fresh.values()), {*joins})
    await insert_edges(tx, plan.edges, applied=not staged)
    await insert_joins(tx, joins, upstreams, depths, applied=not staged)
    if late:
        await insert_joins(tx, dict.fromkeys(late, Join()), {}, applied=False)
        await _deepen(tx, flow)
    if staged:
        return
    await block(tx, late)
    # Some of their upstreams may have ended before.
    await _count_all(tx, late | {edge.downstream for edge in plan.edges if edge.upstream in plan.old})


async def _insert(tx: Tx, flow: FlowRecord, members: Sequence[Member], waiting: Collection[str]) -> None:
    answers = await enqueue(tx, [member.spec for member in members])
    for member, answer in zip(members, answers, strict=True):
        if answer.id != member.spec.id:
            assert member.spec.dedupe is not None
            raise DuplicateJob(answer.id, member.spec.dedupe.key)
    rows: list[Params] = [
        {
            "id": member.spec.id,
            "member": member.name,
            "inputs": member.inputs,
            "waits": int(member.spec.id in waiting),
        }
        for member in members
    ]
    if rows:
        await tx.each(sql.link_member, rows, flow=flow.id)


async def _count_all(tx: Tx, ids: Collection[str]) -> None:
    """Count upstreams that ended before, and release or skip members that wait for nothing else."""
    if ids:
        await tx.one(sql.meet_ended, ids=as_list(ids))
        await settle(tx, await recount(tx, ids))


async def _deepen(tx: Tx, flow: FlowRecord) -> None:
    """Increase the depths of members below existing ones that new edges lead to."""
    found = await _whole(tx, flow)
    deep: list[Params] = [{"job_id": id, "depth": depth} for id, depth in sorted(found.items()) if depth > 1]
    if deep:
        await tx.each(sql.set_depth, deep)


async def _whole(tx: Tx, flow: FlowRecord) -> dict[str, int]:
    """Check the whole graph for cycles; return the depths of all members with edges."""
    rows = await tx.all(sql.flow_edges, flow=flow.id)
    return flows.depths(Edge(upstream, downstream) for upstream, downstream, *_ in rows)


async def _extend(tx: Tx, flow: FlowRecord, n: int) -> None:
    row = await tx.one(sql.extend_flow, id=flow.id, n=n)
    if row is None:
        raise FlowEnded(f"flow {flow.id} ended this moment; make another flow")
    flows.check_members(row[1])


async def _require_held(tx: Tx, flow: FlowRecord, by: Holder) -> None:
    row = await tx.one(sql.hold_member, id=by.job_id, owner=by.owner, epoch=by.epoch)
    if row is None:
        raise LeaseLost(f"job {by.job_id} is no longer this worker's; nothing was added to its flow")
    if row[0] != flow.id:
        raise ForeignMember(f"job {by.job_id} is not a member of flow {flow.id}; a job extends its own flow only")


async def _require_names(tx: Tx, flow: FlowRecord, members: Sequence[Member]) -> None:
    names = Counter(member.name for member in members)
    taken = {name for name, n in names.items() if n > 1}
    if names and not taken:
        taken = {name for (name,) in await tx.all(sql.names_taken, flow=flow.id, names=json.dumps(list(names)))}
    if taken:
        raise DuplicateMember(f"flow {flow.id} has a member {min(taken)!r} already; choose another name")
    for member in members:
        if member.spec.tenant != flow.tenant:
            raise ForeignMember(f"member {member.name!r} is of tenant {member.spec.tenant!r}, its flow is not")


def _require_same(flow: FlowRecord, member: Member, of: str | None, name: str | None, tenant: str) -> None:
    if tenant != flow.tenant:
        raise IdTaken(member.spec.id)
    if of is None:
        job_id = member.spec.id
        raise IdTaken(job_id, f"job {job_id} exists and is not a member of this flow; give the member another id")
    if of != flow.id:
        raise ForeignMember(f"job {member.spec.id} is a member of another flow, {of}")
    if name != member.name:
        raise DuplicateMember(f"job {member.spec.id} is a member of this flow already, as {name!r}")


def _require_members(flow: FlowRecord, edges: Iterable[Edge], members: Collection[str]) -> None:
    for edge in edges:
        for id in (edge.upstream, edge.downstream):
            if id not in members:
                raise ForeignMember(
                    f"job {id} is not a member of flow {flow.id}; add it first, or wait for it in a task"
                )


def _require_live(flow: FlowRecord) -> None:
    if flow.finished_at is not None:
        raise FlowEnded(f"flow {flow.id} has ended ({flow.state}); make another flow, or retry this one")
    if flow.cancel_at is not None:
        raise FlowEnded(f"flow {flow.id} is cancelled; make another flow, or retry this one when it has ended")
