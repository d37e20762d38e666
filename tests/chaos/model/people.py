"""What operators do, and time."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import IllegalMove, QueueClosed
from holdfast.model.actions import ActionResult
from holdfast.rules.lifecycle import MAX_GENERATION, Event

from . import links, runs
from .state import Job, Model, S

_WAITING = (S.READY, S.BLOCKED, S.SUSPENDED)
_NOT_BY_HAND = ("dependencies", "budget_exhausted", "quota", "route")


def cancel(model: Model, job_id: str, *, force: bool, reason: str = "cancelled") -> ActionResult:
    job = model.job(job_id)
    if job.state in _WAITING:
        job.move(Event.CANCEL, S.CANCELLED)
        job.cancel, job.cancel_reason = True, reason
        job.ends(reason, model.now)
        links.tell(model, [job])
        return ActionResult.CANCELLED
    if job.state.is_terminal:
        return ActionResult.FINISHED
    asked = job.cancel
    job.cancel, job.cancel_reason = True, job.cancel_reason or reason
    if not force:
        return ActionResult.ALREADY if asked else ActionResult.REQUESTED
    job.move(Event.FORCE_CANCEL, S.CANCELLED)
    job.ends(reason, model.now)
    links.tell(model, [job])
    runs.freed(model, [job])
    return ActionResult.CANCELLED


def run_now(model: Model, job_id: str) -> bool:
    job = model.job(job_id)
    by_hand = job.state is S.BLOCKED and job.reason not in _NOT_BY_HAND
    if job.due == 0 or by_hand:
        job.move(Event.RUN_NOW, S.READY)
        again = "retry" if job.attempts > 0 else "new"
        job.rests(again if by_hand else job.reason, model.now, model.now)
        return True
    if job.state is not S.READY:
        raise IllegalMove(job_id)
    return False


def retry(model: Model, job_id: str) -> bool:
    job = model.job(job_id)
    if not job.state.is_terminal or job.generation >= MAX_GENERATION:
        raise IllegalMove(job_id)
    if job.flow and model.flows[job.flow].cancelled and not model.flows[job.flow].finished:
        raise IllegalMove(job_id)
    if job.key and model.holder(job.key):
        return False
    job.move(Event.OPERATOR_RETRY, S.READY)
    job.generation += 1
    job.past_attempts += job.attempts
    job.attempts = job.crashes = job.losses = job.suspect = 0
    job.epoch += 1
    job.cancel, job.cancel_reason, job.finished_at, job.finished_epoch = False, None, None, None
    job.deadline = job.deadline if job.deadline is not None and job.deadline > model.now else None
    job.holds_key = job.key is not None
    job.rests("replay", model.now, model.now)
    if job.linked:
        links.retried(model, [job])
    return True


def hold(model: Model, job_id: str) -> ActionResult:
    job = model.job(job_id)
    if job.state is S.BLOCKED and job.reason == "operator":
        return ActionResult.ALREADY
    if job.state is not S.READY:
        raise IllegalMove(job_id)
    job.move(Event.HOLD, S.BLOCKED)
    job.due, job.reason = None, "operator"
    return ActionResult.HELD


def release(model: Model, job_id: str) -> ActionResult:
    job = model.job(job_id)
    if job.state is not S.BLOCKED or job.reason != "operator":
        if job.state is S.BLOCKED or job.state.is_terminal:
            raise IllegalMove(job_id)
        return ActionResult.ALREADY
    job.move(Event.OPERATOR_RELEASE, S.READY)
    later = job.not_before > model.now
    job.reason = "retry" if job.attempts > 0 else "delay" if later else "new"
    job.due = 0 if later else job.mark
    return ActionResult.RELEASED


def set_priority(model: Model, job_id: str, priority: int) -> ActionResult:
    job = model.job(job_id)
    if job.state not in (S.READY, S.BLOCKED, S.SUSPENDED):
        raise IllegalMove(job_id)
    changed = job.priority != priority
    job.priority = priority
    return ActionResult.CHANGED if changed else ActionResult.ALREADY


def move(model: Model, job_id: str, queue: str) -> None:
    if (state := model.queues.get(queue)) in ("draining", "disabled"):
        raise QueueClosed(queue, state or "")
    job = model.jobs.get(job_id)
    if job is not None and job.state in (S.READY, S.BLOCKED):
        job.queue = queue


def set_queue(model: Model, queue: str, state: str) -> None:
    model.queues[queue] = state


def delete(model: Model, job_id: str) -> ActionResult:
    job = model.job(job_id)
    if job.state not in (S.RUNNING, S.SUSPENDED) and not job.linked:
        links.forget(model, job)
        return ActionResult.DELETED
    before, skipped = job.state, model.skipped
    cancel(model, job_id, force=False, reason="deleted")
    if before is S.RUNNING:
        return ActionResult.REQUESTED
    if before is S.SUSPENDED:
        return ActionResult.CANCELLED
    # What is skipped for its sake ends the flow only in a later transaction.
    if links.is_needed(model, job) or model.skipped > skipped:
        return ActionResult.NEEDED if before.is_terminal else ActionResult.CANCELLED
    links.forget(model, job)
    return ActionResult.DELETED


def prune(model: Model, ids: Sequence[str], kept: int) -> int:
    """Only what ended long enough ago, and that nothing needs."""
    gone = [job for id in ids if (job := model.jobs.get(id)) and _is_over(model, job, kept)]
    for job in gone:
        links.forget(model, job)
    return len(gone)


def expire(model: Model) -> list[str]:
    over = [job for job in model.all() if _is_late(model, job)]
    for job in over:
        job.move(Event.EXPIRE, S.EXPIRED)
        job.ends("deadline", model.now)
    links.tell(model, over)
    return sorted(job.id for job in over)


def _is_late(model: Model, job: Job) -> bool:
    return job.state in _WAITING and job.deadline is not None and job.deadline <= model.now


def _is_over(model: Model, job: Job, kept: int) -> bool:
    if job.finished_at is None or job.finished_at > model.now - kept or links.is_needed(model, job):
        return False
    window = model.windows.get(job.key or "")
    return not (job.until == "window" and window and window[0] == job.id and window[1] > model.now)
