"""Operator actions on jobs: cancel, run now, replay, delete, change priority, hold."""

from __future__ import annotations

import json
from typing import Final

from ....errors import IllegalMove
from ....model.actions import Held
from ....model.answers import CancelResult, DeleteResult
from ....model.flows import FlowRecord
from ....model.jobs import JobRecord, JobState
from ....rules.bulk import HELD
from ....rules.lifecycle import MAX_GENERATION
from ...port import Tx
from ...statements import sql
from ..audit import audit
from ..flows import dependency_resolution
from ..limits.lanes import release
from . import values
from .enqueue import key_text
from .queries import get_job
from .retention import forget

_ANYBODYS: Final = Held()


async def cancel(
    tx: Tx, job_id: str, *, reason: str = "cancelled", force: bool = False, held: Held = _ANYBODYS
) -> CancelResult:
    """Cancel a waiting job at once; ask a running one to stop, or with `force` end it now under a new epoch."""
    if not held.by_anybody and await _is_elsewhere(tx, job_id, held):
        return CancelResult.MOVED
    if ended := await tx.one(sql.cancel_waiting, id=job_id, reason=reason):
        await _notify(tx, job_id, ended[0])
        tx.ring("finished")
        return CancelResult.CANCELLED
    if force and (ended := await tx.one(sql.force_cancel, id=job_id, reason=reason)):
        await _notify(tx, job_id, ended[1])
        await release(tx, [ended[0]])
        tx.ring("finished")
        tx.ring("cancel")
        return CancelResult.CANCELLED
    if not force and await tx.one(sql.request_cancel, id=job_id, reason=reason):
        tx.ring("cancel")
        return CancelResult.REQUESTED
    await get_job(tx, job_id)
    return CancelResult.FINISHED


async def run_now(tx: Tx, job_id: str) -> bool:
    """Make a delayed, retrying or parked job due; False if it was due already."""
    row = await tx.one(sql.run_job_now, id=job_id)
    if row is None:
        job = await get_job(tx, job_id)
        if job.state is not JobState.READY:
            raise IllegalMove(
                f"job {job_id} is {job.state} ({job.reason}); only a ready or parked job can be run now; "
                f"see: holdfast jobs explain {job_id}"
            )
        return False
    tx.ring(f"queue:{row[0]}")
    return True


async def replay(tx: Tx, job_id: str) -> bool:
    """Run a finished job again, attempts from zero; False where another live job holds its dedupe key.

    A member of a flow whose dependencies are not met goes back to waiting for them.
    """
    job = await get_job(tx, job_id)
    if not job.state.is_terminal:
        raise IllegalMove(
            f"job {job_id} is {job.state}; only a finished job can be replayed; wait for its end, or cancel it first"
        )
    if job.generation >= MAX_GENERATION:
        raise IllegalMove(f"job {job_id} was replayed {job.generation} times already; enqueue a new one")
    if job.flow is not None:
        await _require_uncancelled(tx, job_id, job.flow)
    row = await tx.one(sql.replay_job, id=job_id, max_generation=MAX_GENERATION, held=_held(job))
    if row is None:
        return False
    await values.drop(tx, [job_id], "result")
    if row[1]:
        await dependency_resolution.replayed(tx, [job_id], forgiven=[job_id])
    tx.ring(f"queue:{row[0]}")
    return True


async def delete(tx: Tx, job_id: str) -> DeleteResult:
    """Remove a job and its history; a running one is asked to stop instead.

    A live job is cancelled first, so that the event log and waiting jobs are notified. One that belongs to an
    unfinished flow, or that another job waits for, ends now and is removed together with those later.
    """
    job = await _locked(tx, job_id)
    answer = CancelResult.FINISHED if job.state.is_terminal else await cancel(tx, job_id, reason="deleted")
    if answer is CancelResult.REQUESTED or job.state is JobState.SUSPENDED:
        return DeleteResult.REQUESTED
    if job.linked and await tx.one(sql.needed_jobs, ids=json.dumps([job_id])):
        return DeleteResult.NEEDED if job.state.is_terminal else DeleteResult.REQUESTED
    await tx.one(sql.delete_jobs_of, ids=json.dumps([job_id]))
    await forget(tx, [job_id])
    return DeleteResult.DELETED


async def hold(tx: Tx, job_id: str, *, actor: str, reason: str) -> bool:
    """Hold a ready job; False if an operator holds it already."""
    job = await _locked(tx, job_id)
    if job.state is JobState.BLOCKED and job.reason == HELD:
        return False
    if await tx.one(sql.hold_job, id=job_id) is None:
        raise IllegalMove(
            f"job {job_id} is {job.state} ({job.reason}); only a ready job can be held; "
            f"to stop it: holdfast jobs cancel {job_id}"
        )
    before = {"reason": job.reason}
    await audit(tx, actor=actor, action="job.hold", target=job_id, reason=reason, before=before)
    return True


async def unhold(tx: Tx, job_id: str, *, actor: str, reason: str) -> bool:
    """Release a held job; False if no operator holds it."""
    job = await _locked(tx, job_id)
    row = await tx.one(sql.release_job, id=job_id)
    if row is None:
        if job.state is JobState.BLOCKED or job.state.is_terminal:
            raise IllegalMove(
                f"job {job_id} is {job.state} ({job.reason}); an operator does not hold it; "
                f"see: holdfast jobs explain {job_id}"
            )
        return False
    tx.ring(f"queue:{row[0]}")
    await audit(tx, actor=actor, action="job.release", target=job_id, reason=reason)
    return True


async def prioritise(tx: Tx, job_id: str, priority: int, *, actor: str, reason: str) -> bool:
    """Change the priority of a waiting job; False if it has that priority already."""
    job = await _locked(tx, job_id)
    if job.priority == priority and job.state in (JobState.READY, JobState.BLOCKED, JobState.SUSPENDED):
        return False
    await set_priority(tx, job_id, priority)
    tx.ring(f"queue:{job.queue}")
    before, after = {"priority": job.priority}, {"priority": priority}
    await audit(tx, actor=actor, action="job.priority", target=job_id, reason=reason, before=before, after=after)
    return True


async def set_priority(tx: Tx, job_id: str, priority: int) -> None:
    """Change the priority of a waiting job."""
    if await tx.one(sql.set_priority, id=job_id, priority=priority) is None:
        job = await get_job(tx, job_id)
        raise IllegalMove(
            f"job {job_id} is {job.state}; its priority can no longer be changed; that of a job that waits can"
        )


async def set_queue_state(tx: Tx, queue: str, state: str) -> None:
    await tx.one(sql.set_queue_state, name=queue, state=state)
    tx.ring(f"queue:{queue}")


async def _locked(tx: Tx, job_id: str) -> JobRecord:
    await tx.one(sql.lock_job, id=job_id)
    return await get_job(tx, job_id)


async def _is_elsewhere(tx: Tx, job_id: str, held: Held) -> bool:
    """Return whether a job that has not ended is not `held` as the caller expects."""
    job = await _locked(tx, job_id)
    return not job.state.is_terminal and held.misfit(job.owner, job.epoch) is not None


async def _notify(tx: Tx, job_id: str, linked: int) -> None:
    if linked:
        await dependency_resolution.resolve(tx, [job_id])


async def _require_uncancelled(tx: Tx, job_id: str, flow_id: str) -> None:
    row = await tx.one(sql.get_flow, id=flow_id)
    flow = FlowRecord(*row) if row else None
    if flow and flow.cancel_at is not None and flow.finished_at is None:
        raise IllegalMove(f"job {job_id} is of flow {flow_id}, which is being cancelled; replay it when that has ended")


def _held(job: JobRecord) -> str | None:
    return key_text(job.tenant, job.dedupe_scope or "", job.dedupe_key) if job.dedupe_key else None
