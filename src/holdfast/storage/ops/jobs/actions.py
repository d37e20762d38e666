"""Operator actions on jobs. One job or many take the same path: lock, look, decide by the rule, change, audit.

`act` is for one job, in one transaction. `apply` is for one batch of many: one transaction, its audit record included.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from ....errors import IllegalMove, NotFound, QueueClosed
from ....model.actions import Action, ActionResult, Order
from ....model.jobs import JobState
from ....model.outcomes import Finish, Released
from ....rules.actions import ACTIONS, JobFacts, decide
from ...port import Params, Row, Tx
from ...statements import Statement, sql
from .. import steps
from ..audit import audit
from ..flows import dependency_resolution
from ..limits.lanes import release as release_lanes
from ..routing import grants
from ..routing.routes import find_route, insert_routes
from . import values
from .counting import lower_tallies
from .enqueue import CLOSED
from .finishing import settle
from .retention import forget
from .retrying import revive

BATCH: Final = 500
"""Jobs in one transaction."""

Results = dict[str, ActionResult]


# -- one job


async def act(tx: Tx, job_id: str, order: Order, *, actor: str, reason: str) -> ActionResult:
    """Act on one job, and audit it if something changed. NotFound, or IllegalMove where its state does not allow it."""
    record = ACTIONS[order.action]
    job = await _locked(tx, job_id)
    before = await _before(tx, job, order)
    result = await _act(tx, job, order, reason)
    if result.changes:
        after = {"outcome": result, **record.given(order)}
        said = {"action": f"job.{order.action}", "target": job_id, "reason": reason or record.reason}
        # The audit reads the tenant of a job that is still there: with a value, Postgres plans the insert each time.
        gone = result is ActionResult.DELETED
        await audit(tx, actor=actor, **said, before=before, after=after, tenant=job.tenant if gone else None)
    return result


async def cancel(
    tx: Tx,
    job_id: str,
    *,
    reason: str = "cancelled",
    force: bool = False,
    owner: str | None = None,
    epoch: int | None = None,
) -> ActionResult:
    """Cancel a waiting job at once; ask a running one to stop, or with `force` end it now under a new epoch."""
    order = Order(Action.CANCEL, force=force, owner=owner, epoch=epoch)
    return await _act(tx, await _locked(tx, job_id), order, reason)


async def run_now(tx: Tx, job_id: str) -> bool:
    """Make a delayed, retrying or parked job due; False if it was due already."""
    return (await _act(tx, await _locked(tx, job_id), Order(Action.RUN_NOW), "")).changes


async def retry(tx: Tx, job_id: str) -> bool:
    """Run a finished job again, attempts from zero; False where another live job holds its dedupe key.

    A member of a flow whose dependencies are not met goes back to waiting for them.
    """
    return (await _act(tx, await _locked(tx, job_id), Order(Action.RETRY), "")).changes


async def delete(tx: Tx, job_id: str) -> ActionResult:
    """Remove a job and its history; a running one is asked to stop instead.

    A live job is cancelled first, so that the event log and waiting jobs are notified. One that belongs to an
    unfinished flow, or that another job waits for, ends now and is removed together with those later.
    """
    return await _act(tx, await _locked(tx, job_id), Order(Action.DELETE), "")


async def _locked(tx: Tx, job_id: str) -> JobFacts:
    await tx.one(sql.lock_jobs, ids=json.dumps([job_id]))
    jobs = await _look(tx, [job_id])
    if not jobs:
        raise NotFound("job", job_id)
    return jobs[0]


async def _act(tx: Tx, job: JobFacts, order: Order, reason: str) -> ActionResult:
    result = (await _act_on(tx, [job], order, reason))[job.id]
    if result is ActionResult.NOT_ALLOWED:
        raise IllegalMove(ACTIONS[order.action].refuses(job))
    return result


async def _before(tx: Tx, job: JobFacts, order: Order) -> dict[str, object] | None:
    """Return what the audit keeps of a job before an action."""
    if order.action in (Action.GRANT, Action.WITHDRAW):
        granted = await grants.grant_of(tx, job.id)
        return None if granted is None else {"worker": granted.worker, "expires_at": granted.expires_at}
    return {name: getattr(job, name) for name in ACTIONS[order.action].before} or None


# -- many jobs


async def expect(tx: Tx, ids: Sequence[str], order: Order) -> Results:
    """Return the expected result for each of these jobs. Changes nothing."""
    results: Results = dict.fromkeys(ids, ActionResult.MISSING)
    taken: set[str] = set()
    for job in await _look(tx, ids, order.only_tenant):
        result = decide(job, order) if _is_meant(job, order) else ActionResult.NOT_ALLOWED
        if result is ActionResult.RETRIED and job.held is not None:
            # Of two jobs with one key, the first would hold the key of the second.
            result = ActionResult.KEY_TAKEN if job.held in taken else result
            taken.add(job.held)
        results[job.id] = result
    return results


async def apply(tx: Tx, ids: Sequence[str], order: Order, *, actor: str, reason: str, target: str) -> Results:
    """Act on these jobs, and audit it if something changed; return each job's result."""
    record = ACTIONS[order.action]
    await check_target(tx, order)
    await tx.one(sql.lock_jobs, ids=json.dumps(ids))
    jobs = await _look(tx, ids, order.only_tenant)
    results: Results = dict.fromkeys(ids, ActionResult.MISSING)
    results |= {job.id: ActionResult.NOT_ALLOWED for job in jobs}
    results |= await _act_on(tx, [job for job in jobs if _is_meant(job, order)], order, reason)
    counts = Counter(str(result) for result in results.values())
    after = {"jobs": len(ids), "counts": counts, "first": min(ids), "last": max(ids), **record.given(order)}
    said = {"action": f"job.{order.action}", "target": target, "reason": reason or record.reason}
    if any(result.changes for result in results.values()):
        await audit(tx, actor=actor, **said, after=after, tenant=order.only_tenant)
    return results


async def check_target(tx: Tx, order: Order) -> None:
    """Raise QueueClosed where jobs would be moved to a queue that accepts none."""
    if order.queue is not None:
        row = await tx.one(sql.queue_state, name=order.queue)
        if row and row[0] in CLOSED:
            raise QueueClosed(order.queue, row[0])


async def set_queue_state(tx: Tx, queue: str, state: str) -> None:
    await tx.one(sql.set_queue_state, name=queue, state=state)
    tx.notify(f"queue:{queue}")


# -- what each action does to locked jobs. Each is given those that its rule lets it change


async def _act_on(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    results = {job.id: decide(job, order) for job in jobs}
    changed = [job for job in jobs if results[job.id].changes]
    if changed:
        results |= await _ACTS[order.action](tx, changed, order, reason or ACTIONS[order.action].reason)
    return results


async def _retry(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    results = dict.fromkeys((job.id for job in jobs), ActionResult.RETRIED)
    revived = await revive(tx, {job.id: job.held for job in jobs})
    results |= {job.id: ActionResult.KEY_TAKEN for job in jobs if job.id not in revived}
    again = [job for job in jobs if job.id in revived]
    await values.drop(tx, [job.id for job in again], "result")
    if order.fresh:
        for job in again:
            await steps.forget(tx, job.id)
    if linked := [job.id for job in again if job.linked]:
        await dependency_resolution.retried(tx, linked, forgiven=linked)
    await lower_tallies(tx, [(job.queue, str(job.state)) for job in again])
    _wake(tx, {job.queue for job in again})
    return results


async def _cancel(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    await _end(tx, jobs, reason, force=order.force)
    return {}


async def _delete(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    gone = [job for job in jobs if decide(job, order) is ActionResult.DELETED]
    await _end(tx, jobs, "deleted")
    free = [job.id for job in gone if not job.linked]
    if free:
        await forget(tx, free)
        await _each(tx, sql.delete_each, free)
    # The end of one may have unblocked others that still refer to it.
    linked = [job.id for job in gone if job.linked]
    kept = await _needed(tx, linked)
    if linked := [job_id for job_id in linked if job_id not in kept]:
        await tx.one(sql.delete_jobs_of, ids=json.dumps(linked))
        await forget(tx, linked)
    done = [job for job in gone if job.id not in kept]
    await lower_tallies(tx, [(job.queue, str(job.state)) for job in done if job.state.is_terminal])
    needed, cancelled = ActionResult.NEEDED, ActionResult.CANCELLED
    return {job.id: needed if job.state.is_terminal else cancelled for job in gone if job.id in kept}


async def _needed(tx: Tx, ids: Sequence[str]) -> set[str]:
    return {job_id for (job_id,) in await tx.all(sql.needed_jobs, ids=json.dumps(ids))} if ids else set()


async def _end(tx: Tx, jobs: Sequence[JobFacts], reason: str, *, force: bool = False) -> None:
    """Cancel waiting jobs; ask running ones to stop, or end them."""
    waiting = [job.id for job in jobs if not job.state.is_terminal and job.state is not JobState.RUNNING]
    if len(waiting) == 1:
        ended = [await tx.one(sql.cancel_waiting, id=waiting[0], reason=reason)]
    else:
        ended = await _each(tx, sql.cancel_each, waiting, reason=reason)
    linked = [job_id for job_id, row in zip(waiting, ended, strict=True) if row and row[0]]
    running = [job.id for job in jobs if job.state is JobState.RUNNING]
    for job_id in running:
        if not force:
            await tx.one(sql.request_cancel, id=job_id, reason=reason)
        elif row := await tx.one(sql.force_cancel, id=job_id, reason=reason):
            await release_lanes(tx, [row[0]])
            linked += [job_id] if row[1] else []
    if linked:
        await dependency_resolution.resolve(tx, linked)
    if waiting or (running and force):
        tx.notify("finished")
    if running:
        tx.notify("cancel")


async def _run_now(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    return await _one_by_one(tx, jobs, sql.run_job_now)


async def _reschedule(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    return await _one_by_one(tx, jobs, sql.reschedule_job, at=order.at, delay=order.delay)


async def _set_priority(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    return await _one_by_one(tx, jobs, sql.set_priority, priority=order.priority)


async def _hold(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    return await _one_by_one(tx, jobs, sql.hold_job)


async def _release(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    return await _one_by_one(tx, jobs, sql.release_job)


async def _move(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    """Move jobs to another queue, along with the other requirements of their route."""
    assert order.queue is not None
    await check_target(tx, order)
    routes = {job.route: await find_route(tx, job.route, job.queue) for job in jobs}
    for job in jobs:
        new = routes[job.route].on(order.queue)
        await insert_routes(tx, [new])
        await _one_by_one(tx, [job], sql.move_job, queue=order.queue, route=new.number)
    _wake(tx, {order.queue})
    return {}


async def _revoke(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    for job in jobs:
        assert job.owner is not None
        await settle(tx, job.owner, [Finish(job.id, job.epoch, Released("revoked"))], by_owner=False)
    # Their workers check at once which jobs they still own.
    tx.notify("cancel")
    tx.notify("finished")
    return {}


async def _grant(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    assert order.worker is not None
    assert order.expires is not None
    for job in jobs:
        await grants.grant(tx, job.id, order.worker, order.expires)
    return {}


async def _withdraw(tx: Tx, jobs: Sequence[JobFacts], order: Order, reason: str) -> Results:
    return {job.id: ActionResult.NOT_GRANTED for job in jobs if not await grants.withdraw(tx, job.id)}


_Act = Callable[[Tx, Sequence[JobFacts], Order, str], Awaitable[Results]]
_ACTS: Final[dict[Action, _Act]] = {
    Action.RETRY: _retry,
    Action.CANCEL: _cancel,
    Action.DELETE: _delete,
    Action.RUN_NOW: _run_now,
    Action.RESCHEDULE: _reschedule,
    Action.SET_PRIORITY: _set_priority,
    Action.MOVE: _move,
    Action.HOLD: _hold,
    Action.RELEASE: _release,
    Action.REVOKE: _revoke,
    Action.GRANT: _grant,
    Action.WITHDRAW: _withdraw,
}


async def _one_by_one(tx: Tx, jobs: Sequence[JobFacts], statement: Statement, **params: str | int | None) -> Results:
    for job in jobs:
        await tx.one(statement, id=job.id, **params)
    _wake(tx, {job.queue for job in jobs})
    return {}


async def _each(tx: Tx, statement: Statement, ids: Sequence[str], **common: str | int) -> list[Row | None]:
    rows: list[Params] = [{"id": id} for id in ids]
    return await tx.each(statement, rows, **common) if rows else []


async def _look(tx: Tx, ids: Sequence[str], tenant: str | None = None) -> list[JobFacts]:
    rows = await tx.all(sql.look_at_jobs, ids=json.dumps(ids))
    return [job for job in map(_job, rows) if tenant in (None, job.tenant)]


def _job(row: Row) -> JobFacts:
    id, state, *rest = row
    return JobFacts(id, JobState(state), *rest)


def _is_meant(job: JobFacts, order: Order) -> bool:
    in_state = order.only_states is None or job.state in order.only_states
    return in_state and order.only_queue in (None, job.queue)


def _wake(tx: Tx, queues: Collection[str]) -> None:
    for queue in queues:
        tx.notify(f"queue:{queue}")
