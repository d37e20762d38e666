"""Who finds room: in lanes, and in the budget."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.rules.lifecycle import Event

from .state import Job, Model, S

SHORT = "budget_exhausted"


def balance(model: Model, left: Sequence[Job], taken: Sequence[Job]) -> list[Job]:
    """Who starts. Where more left a lane than came, those who wait in it may try."""
    capacities = {job.limit[0]: job.limit[1] for job in (*left, *taken) if job.limit}
    fresh = {id(job) for job in taken}
    room = {
        lane: capacity - sum(1 for job in model.all() if _runs_in(job, lane) and id(job) not in fresh)
        for lane, capacity in capacities.items()
    }
    change = dict.fromkeys(capacities, 0)
    for job in left:
        if job.limit:
            change[job.limit[0]] -= 1
    started: list[Job] = []
    for job in taken:
        lane = job.limit[0] if job.limit else None
        if lane is not None and room[lane] <= 0:
            _park(model, job, lane)
            continue
        if lane is not None:
            room[lane] -= 1
            change[lane] += 1
        started.append(job)
    for lane, delta in change.items():
        if delta:
            _unpark(model, lane, room[lane])
    gone = [job.id for job in left if job.id in model.purse.held]
    for job_id in gone:
        del model.purse.held[job_id]
    if gone:
        wake_short(model)
    return started


def unpark_stalled(model: Model) -> None:
    for lane, capacity in {job.limit for job in model.all() if job.limit}:
        _unpark(model, lane, capacity - model.running_in(lane))


def wake_short(model: Model) -> None:
    """Those who now find room in the budget go on, where they stood."""
    short = [id for id in model.purse.short if id in model.jobs]
    waiting = [id for id in short if model.jobs[id].state is S.BLOCKED and model.jobs[id].reason == SHORT]
    for id in model.purse.fitting(waiting):
        job = model.jobs[id]
        job.move(Event.UNBLOCK, S.READY)
        job.due, job.reason = job.mark, "unblocked"
        del model.purse.short[id]


def by_rank(job: Job) -> tuple[int, int, str]:
    return (-job.priority, job.rank, job.id)


def _park(model: Model, job: Job, lane: str) -> None:
    """As if it had never been taken, but for its epoch."""
    # A run of an earlier generation that began this very moment cannot be told from this one.
    first = job.attempts == 1 and job.started_at == model.now
    job.state, job.due, job.lane, job.reason = S.READY, 2, lane, "limit"
    job.attempts -= 1
    job.epoch += 1
    job.owner, job.alone = None, 0
    started_at, job.holds_key, job.ran_in = job.was
    job.started_at = None if first else started_at


def _runs_in(job: Job, lane: str) -> bool:
    return job.state is S.RUNNING and job.limit is not None and job.limit[0] == lane


def _unpark(model: Model, lane: str, n: int) -> None:
    parked = sorted((job for job in model.all() if job.due == 2 and job.lane == lane), key=by_rank)
    for job in parked[: max(0, n)]:
        job.due, job.lane = job.mark, None
