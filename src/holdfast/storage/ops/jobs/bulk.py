"""Operator actions on many jobs. One call here is one batch: one transaction, its audit record included."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from ....errors import QueueClosed
from ....model.actions import UNCHANGED, Action, ActionResult, Order
from ....model.jobs import JobState
from ....rules import bulk as rules
from ....rules.bulk import Look
from ....rules.lifecycle import MAX_GENERATION
from ...port import Params, Row, Tx
from ...statements import Statement, sql
from ..audit import audit
from ..flows import dependency_resolution
from ..routing.routes import find_route, insert_routes
from . import control, values
from .counting import lower_tallies
from .enqueue import CLOSED
from .retention import forget

BATCH: Final = 500
"""Jobs in one transaction."""


async def expect(tx: Tx, ids: Sequence[str], order: Order) -> dict[str, ActionResult]:
    """Return the expected outcome for each of these jobs. Changes nothing."""
    fates: dict[str, ActionResult] = dict.fromkeys(ids, ActionResult.MISSING)
    taken: set[str] = set()
    for job in await _look(tx, ids, order):
        if not _is_meant(job, order):
            fates[job.id] = ActionResult.NOT_ALLOWED
            continue
        fate = rules.fate(job, order.action, force=order.force, priority=order.priority)
        if fate is ActionResult.RETRIED and job.held is not None:
            # Of two jobs with one key, the first would hold the key of the second.
            fate = ActionResult.NOT_REQUEUED if job.held in taken else fate
            taken.add(job.held)
        fates[job.id] = fate
    return fates


async def apply(
    tx: Tx, ids: Sequence[str], order: Order, *, actor: str, reason: str, target: str
) -> dict[str, ActionResult]:
    """Act on these jobs, and audit it if something changed; return each job's outcome."""
    await tx.one(sql.lock_jobs, ids=json.dumps(ids))
    jobs = await _look(tx, ids, order)
    fates: dict[str, ActionResult] = dict.fromkeys(ids, ActionResult.MISSING)
    fates |= {job.id: ActionResult.NOT_ALLOWED for job in jobs}
    fates |= await _ACTIONS[order.action](tx, [job for job in jobs if _is_meant(job, order)], order, reason)
    counts = Counter(str(fate) for fate in fates.values())
    after = {"jobs": len(ids), "fates": counts, "first": min(ids), "last": max(ids), **_detail(order)}
    said = {"action": f"job.{order.action}", "target": target, "reason": reason}
    if not UNCHANGED.issuperset(fates.values()):
        await audit(tx, actor=actor, **said, after=after, tenant=order.only_tenant)
    return fates


async def check_target(tx: Tx, order: Order) -> None:
    """Raise QueueClosed where jobs would be moved to a queue that accepts none."""
    if order.queue is not None:
        row = await tx.one(sql.queue_state, name=order.queue)
        if row and row[0] in CLOSED:
            raise QueueClosed(order.queue, row[0])


async def _retry(tx: Tx, jobs: Sequence[Look], order: Order, reason: str) -> dict[str, ActionResult]:
    fates = {job.id: rules.fate(job, Action.RETRY) for job in jobs}
    wanted = [job for job in jobs if fates[job.id] is ActionResult.RETRIED]
    ended = [(job.queue, str(job.state)) for job in wanted]
    await _each(tx, sql.replay_each, [job.id for job in wanted if job.held is None], max_generation=MAX_GENERATION)
    for job in wanted:
        if job.held is not None:
            row = await tx.one(sql.replay_job, id=job.id, max_generation=MAX_GENERATION, held=job.held)
            fates[job.id] = ActionResult.RETRIED if row else ActionResult.NOT_REQUEUED
    again = [job.id for job in wanted if job.linked and fates[job.id] is ActionResult.RETRIED]
    await values.drop(tx, [job.id for job in wanted if fates[job.id] is ActionResult.RETRIED], "result")
    await dependency_resolution.replayed(tx, again, forgiven=again)
    await lower_tallies(tx, ended)
    _wake(tx, {job.queue for job in wanted})
    return fates


async def _cancel(tx: Tx, jobs: Sequence[Look], order: Order, reason: str) -> dict[str, ActionResult]:
    fates = {job.id: rules.fate(job, Action.CANCEL, force=order.force) for job in jobs}
    await _end(tx, jobs, reason or "cancelled", force=order.force)
    return fates


async def _delete(tx: Tx, jobs: Sequence[Look], order: Order, reason: str) -> dict[str, ActionResult]:
    fates = {job.id: rules.fate(job, Action.DELETE) for job in jobs}
    gone = [job for job in jobs if fates[job.id] is ActionResult.DELETED]
    await _end(tx, [job for job in gone if not job.linked], "deleted")
    await forget(tx, [job.id for job in gone if not job.linked])
    await _each(tx, sql.delete_each, [job.id for job in gone if not job.linked])
    for job in gone:
        if job.linked:
            await control.delete(tx, job.id)
    await lower_tallies(tx, [(job.queue, str(job.state)) for job in gone if job.state.is_terminal])
    await _end(
        tx, [job for job in jobs if fates[job.id] in (ActionResult.CANCELLED, ActionResult.REQUESTED)], "deleted"
    )
    return fates


async def _end(tx: Tx, jobs: Sequence[Look], reason: str, *, force: bool = False) -> None:
    """Cancel waiting jobs; ask running ones to stop, or end them."""
    waiting = [job.id for job in jobs if not job.state.is_terminal and job.state is not JobState.RUNNING]
    ended = await _each(tx, sql.cancel_each, waiting, reason=reason)
    if linked := [id for id, row in zip(waiting, ended, strict=True) if row and row[0]]:
        await dependency_resolution.resolve(tx, linked)
    if waiting:
        tx.ring("finished")
    for job in jobs:
        if job.state is JobState.RUNNING:
            await control.cancel(tx, job.id, reason=reason, force=force)


async def _run_now(tx: Tx, jobs: Sequence[Look], order: Order, reason: str) -> dict[str, ActionResult]:
    return await _one_by_one(tx, jobs, order, sql.run_job_now)


async def _prioritise(tx: Tx, jobs: Sequence[Look], order: Order, reason: str) -> dict[str, ActionResult]:
    return await _one_by_one(tx, jobs, order, sql.set_priority, priority=order.priority)


async def _hold(tx: Tx, jobs: Sequence[Look], order: Order, reason: str) -> dict[str, ActionResult]:
    return await _one_by_one(tx, jobs, order, sql.hold_job)


async def _release(tx: Tx, jobs: Sequence[Look], order: Order, reason: str) -> dict[str, ActionResult]:
    return await _one_by_one(tx, jobs, order, sql.release_job)


async def _move(tx: Tx, jobs: Sequence[Look], order: Order, reason: str) -> dict[str, ActionResult]:
    """Move jobs to another queue, along with the other requirements of their route."""
    assert order.queue is not None
    await check_target(tx, order)
    routes = {job.route: await find_route(tx, job.route, job.queue) for job in jobs}
    fates: dict[str, ActionResult] = {}
    for job in jobs:
        new = routes[job.route].on(order.queue)
        await insert_routes(tx, [new])
        fates |= await _one_by_one(tx, [job], order, sql.move_job, queue=order.queue, route=new.number)
    _wake(tx, {order.queue})
    return fates


_Batch = Callable[[Tx, Sequence[Look], Order, str], Awaitable[dict[str, ActionResult]]]
_ACTIONS: Final[dict[Action, _Batch]] = {
    Action.RETRY: _retry,
    Action.CANCEL: _cancel,
    Action.DELETE: _delete,
    Action.RUN_NOW: _run_now,
    Action.PRIORITY: _prioritise,
    Action.MOVE: _move,
    Action.HOLD: _hold,
    Action.RELEASE: _release,
}


async def _one_by_one(
    tx: Tx, jobs: Sequence[Look], order: Order, statement: Statement, **params: str | int | None
) -> dict[str, ActionResult]:
    fates = {job.id: rules.fate(job, order.action, priority=order.priority) for job in jobs}
    touched = [job for job in jobs if fates[job.id] not in UNCHANGED]
    for job in touched:
        await tx.one(statement, id=job.id, **params)
    _wake(tx, {job.queue for job in touched})
    return fates


async def _each(tx: Tx, statement: Statement, ids: Sequence[str], **common: str | int) -> list[Row | None]:
    rows: list[Params] = [{"id": id} for id in ids]
    return await tx.each(statement, rows, **common) if rows else []


async def _look(tx: Tx, ids: Sequence[str], order: Order) -> list[Look]:
    rows = await tx.all(sql.look_at_jobs, ids=json.dumps(ids))
    jobs = [Look(id, JobState(state), *rest) for id, state, *rest in rows]
    return [job for job in jobs if order.only_tenant in (None, job.tenant)]


def _is_meant(job: Look, order: Order) -> bool:
    in_state = order.only_states is None or job.state in order.only_states
    return in_state and order.only_queue in (None, job.queue)


def _wake(tx: Tx, queues: Collection[str]) -> None:
    for queue in queues:
        tx.ring(f"queue:{queue}")


def _detail(order: Order) -> dict[str, object]:
    known = {"priority": order.priority, "queue": order.queue, "force": order.force or None}
    return {name: value for name, value in known.items() if value is not None}
