"""Operator actions on flows: cancel, retry what failed, run a part again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from ....errors import FlowEnded, IllegalMove, NotFound, StorageBusy
from ....model.flows import CancelPolicy, CancelRecord, Edge, FlowGraph, FlowRecord, Join, JoinChange, MemberRecord
from ....model.jobs import JobState
from ....rules import flows
from ...port import Row, Tx
from ...statements import sql
from ..audit import audit
from ..jobs import values
from ..jobs.counting import lower_tallies
from ..jobs.queries import clock, get_job
from ..jobs.retrying import revive
from . import dependency_resolution
from .edges import HOPS, as_list, recount, settle
from .endings import end_if_over
from .flow_reads import flow_graph, get_flow

PAGE: Final = 500
"""Members that one transaction cancels at most."""
_SCOPES: Final = {CancelPolicy.FLOW_ONLY: 0, CancelPolicy.CANCEL_PENDING: 1, CancelPolicy.CANCEL_ALL: 2}


async def cancel_flow(tx: Tx, flow_id: str, policy: str, *, reason: str = "cancelled", actor: str = "") -> CancelRecord:
    """Cancel a flow as far as `policy` goes; an unknown one cancels least. Repeated, it returns the first cancel.

    A large flow is cancelled in pages: by `cancel_page`, or by any worker.
    """
    chosen = _policy(policy)
    flow = await get_flow(tx, flow_id)
    if flow.cancel_at is not None:
        return CancelRecord(_policy(flow.cancel_policy), flow.cancel_reason or "", flow.cancel_at, again=True)
    if flow.finished_at is not None:
        raise FlowEnded(f"flow {flow_id} has ended ({flow.state}); there is nothing left to cancel")
    # Earlier than the cancel of every member that it reaches; `cancelled_members` finds them by this.
    at = await clock(tx)
    ended, upto = await _cancel_members(tx, flow_id, "", chosen, reason)
    row = await tx.one(sql.cancel_flow, id=flow_id, policy=str(chosen), reason=reason, at=at, upto=upto)
    if row is None:
        raise StorageBusy(f"flow {flow_id} ended, or was cancelled, this moment; repeat the call")
    await audit(tx, actor=actor, action="flow.cancel", target=flow_id, reason=reason, after={"policy": str(chosen)})
    await _after_cancel(tx, flow_id, ended)
    return CancelRecord(chosen, reason, int(row[0]))


async def cancel_page(tx: Tx, flow_id: str) -> bool:
    """Cancel the next page of members; return whether there may be more."""
    row = await tx.one(sql.cancel_place, id=flow_id)
    if row is None or row[2] is None:
        return False
    policy, reason, after = row
    ended, upto = await _cancel_members(tx, flow_id, after, _policy(policy), reason)
    await tx.one(sql.carry_cancel, id=flow_id, upto=upto)
    await _after_cancel(tx, flow_id, ended)
    return upto is not None


async def cancelled_members(tx: Tx, flow_id: str, at: int) -> tuple[str, ...]:
    """Return the members that a cancel of that time reached."""
    return tuple(row[0] for row in await tx.all(sql.cancelled_members, flow=flow_id, at=at))


async def cancelling(tx: Tx, n: int = 20) -> list[str]:
    """Return flows whose cancel has not reached all their members."""
    return [id for (id,) in await tx.all(sql.cancelling_flows, n=n)]


async def retry_flow(tx: Tx, flow_id: str, *, actor: str = "", reason: str = "") -> list[str]:
    """Retry the failed part: members that failed, expired or were cancelled, and those skipped because of them.

    Returns the ids of the members that run again. An ended flow is reopened.
    """
    found = await flow_graph(tx, flow_id)
    _require_settled(found.flow)
    seen = [flows.Seen(one.id, _is_retried(one), one.state is JobState.SKIPPED, _join(one)) for one in found.members]
    wanted = flows.to_retry(seen, [(Edge(e.upstream, e.downstream, e.policy), e.met) for e in found.edges])
    chosen = await _retry(tx, wanted, forgiven=())
    await audit(tx, actor=actor, action="flow.retry", target=flow_id, reason=reason, after={"members": len(chosen)})
    return chosen


async def retry_member(tx: Tx, job_id: str, *, downstream: bool = True, actor: str = "", reason: str = "") -> list[str]:
    """Run a finished member again, and with `downstream` all finished ones that wait for it, directly or not."""
    job = await get_job(tx, job_id)
    if job.flow is None:
        raise IllegalMove(f"job {job_id} is not a member of a flow; retry the job itself")
    if not job.state.is_terminal:
        raise IllegalMove(
            f"job {job_id} is {job.state}; only a finished job can be retried; wait for its end, or cancel it first"
        )
    found = await flow_graph(tx, job.flow)
    _require_settled(found.flow)
    after = _finished_after(job_id, found) if downstream else set[str]()
    chosen = await _retry(tx, {job_id, *after}, forgiven=[job_id])
    if job_id not in chosen:
        raise IllegalMove(
            f"job {job_id} was retried {job.generation} times already, or another job holds its dedupe key; "
            "enqueue a new one"
        )
    target, change = job.flow, {"member": job_id, "members": len(chosen)}
    await audit(tx, actor=actor, action="flow.retry_member", target=target, reason=reason, after=change)
    return chosen


async def set_join(tx: Tx, job_id: str, join: Join, *, actor: str = "", reason: str = "") -> JoinChange:
    """Change how many upstreams a member needs, while it waits for them; start or skip it if that decides it.

    The join is locked before the job, as by the ends that are counted: an upstream that ends meanwhile is either in
    the new count or is subtracted from it.
    """
    await tx.one(sql.lock_joins, ids=as_list([job_id]))
    await tx.one(sql.lock_members, ids=as_list([job_id]))
    flow_id, before, upstreams = await _waiting_member(tx, job_id, join)
    if _same(before, join):
        return _joined(flow_id, job_id, before, upstreams, JobState.BLOCKED, changed=False)
    _require_settled(await get_flow(tx, flow_id))
    await tx.one(sql.set_join, id=job_id, mode=join.mode, needed=join.needed, rest=join.rest)
    await settle(tx, await recount(tx, [job_id]))
    ((*_, state),) = await tx.all(sql.look_at_members, ids=as_list([job_id]))
    old, new = _audited(job_id, before), _audited(job_id, join)
    await audit(tx, actor=actor, action="flow.set_join", target=flow_id, reason=reason, before=old, after=new)
    return _joined(flow_id, job_id, join, upstreams, JobState(state), changed=True)


def _joined(flow_id: str, job_id: str, join: Join, upstreams: int, state: JobState, *, changed: bool) -> JoinChange:
    return JoinChange(
        flow_id=flow_id, job_id=job_id, needs=join.mode, needed=join.needed, rest=join.rest, upstreams=upstreams,
        state=state, changed=changed,
    )  # fmt: skip


async def _waiting_member(tx: Tx, job_id: str, wanted: Join) -> tuple[str, Join, int]:
    """Read the flow, the join and the number of upstreams of a member that may get the wanted join."""
    row = await tx.one(sql.member_join, id=job_id)
    if row is None:
        raise NotFound("job", job_id)
    flow_id, state, why, inputs, applied, mode, needed, rest, upstreams = row
    if flow_id is None:
        raise IllegalMove(f"job {job_id} is not a member of a flow; only members of flows have a join")
    if mode is None or (applied and not upstreams):
        raise IllegalMove(f"job {job_id} waits for no other member; give it upstreams with `after` when it is added")
    if not applied:
        raise IllegalMove(f"job {job_id} waits for its flow to be applied; apply the flow first")
    if (state, why) != (JobState.BLOCKED, "dependencies"):
        raise IllegalMove(f"job {job_id} is {state} ({why}): its join has fired, and can no longer be changed")
    flows.check_join(wanted, upstreams)
    flows.check_inputs(job_id, wanted, inputs)
    return flow_id, Join(mode, needed, rest), upstreams


def _same(one: Join, other: Join) -> bool:
    """Compare joins; `needed` counts with a quorum only."""
    return (one.mode, one.rest) == (other.mode, other.rest) and (one.mode != "quorum" or one.needed == other.needed)


def _audited(job_id: str, join: Join) -> dict[str, object]:
    return {"member": job_id, "needs": join.mode, "needed": join.needed, "rest": join.rest}


async def _cancel_members(
    tx: Tx, flow_id: str, after: str, policy: CancelPolicy, reason: str
) -> tuple[list[str], str | None]:
    """Cancel the next page of members; return those that this ended, and where to continue (None at the end)."""
    page = await tx.all(sql.page_of_members, flow=flow_id, after=after, n=PAGE)
    ids = as_list(id for id, _ in page)
    ended = await tx.all(sql.cancel_members, ids=ids, scope=_SCOPES[policy], reason=reason) if page else []
    if page and policy is CancelPolicy.CANCEL_ALL and await tx.all(sql.ask_members, ids=ids, reason=reason):
        tx.notify("cancel")
    return [id for (id,) in ended], page[-1][1] if len(page) == PAGE else None


async def _after_cancel(tx: Tx, flow_id: str, ended: Sequence[str]) -> None:
    await dependency_resolution.resolve_cancelled(tx, ended)
    # Where it had no live members, nothing else ends it.
    await end_if_over(tx, flow_id)
    tx.notify("finished")
    tx.notify(HOPS)


async def _retry(tx: Tx, ids: Collection[str], *, forgiven: Collection[str]) -> list[str]:
    """Start a new generation of these; return those for which that was possible."""
    if not ids:
        return []
    await tx.one(sql.lock_members, ids=as_list(ids))
    done: list[str] = []
    for start in range(0, len(ids), PAGE):
        done += await _retry_page(tx, sorted(ids)[start : start + PAGE])
    await values.drop(tx, done, "result")
    await dependency_resolution.retried(tx, done, forgiven=[id for id in forgiven if id in done])
    return done


async def _retry_page(tx: Tx, ids: Sequence[str]) -> list[str]:
    rows = {row[0]: row for row in await tx.all(sql.look_at_jobs, ids=as_list(ids))}
    done = await revive(tx, {id: _held(row) for id, row in rows.items()})
    await lower_tallies(tx, [(rows[id][2], rows[id][1]) for id in done])
    for queue in {rows[id][2] for id in done}:
        tx.notify(f"queue:{queue}")
    return sorted(done)


def _finished_after(job_id: str, found: FlowGraph) -> set[str]:
    finished = {one.id for one in found.members if one.state.is_terminal}
    return finished & flows.descendants(job_id, [Edge(e.upstream, e.downstream) for e in found.edges])


def _is_retried(member: MemberRecord) -> bool:
    match member.state:
        case JobState.FAILED | JobState.EXPIRED:
            return True
        case JobState.CANCELLED:
            return member.reason != "not_needed"
        case _:
            return False


def _join(member: MemberRecord) -> Join | None:
    return None if member.mode is None else Join(member.mode, member.needed or 0)


def _held(row: Row) -> str | None:
    held: str | None = row[7]
    return held


def _policy(text: str | None) -> CancelPolicy:
    try:
        return CancelPolicy(text or "")
    except ValueError:
        return CancelPolicy.FLOW_ONLY


def _require_settled(flow: FlowRecord) -> None:
    if flow.cancel_at is not None and flow.finished_at is None:
        raise IllegalMove(f"flow {flow.id} is being cancelled; retry it when it has ended")
