"""Make the jobs of due schedules: one per tick, however many schedulers check, however often.

The schedule is advanced by compare-and-set, and each tick has a row of its own that is written in the job's commit and
outlives the job. Neither a second scheduler nor a restart, a clock that steps or a pruned job can fire a tick twice;
an error rolls all of it back, so that the tick is still due.
"""

from __future__ import annotations

from typing import Final

from ....clock import SECOND
from ....errors import DuplicateJob, InvalidInput, UnknownZone
from ....ids import ids
from ....model.jobs import Enqueued
from ....model.schedules import Backfill, Firing, Ran, ScheduleKey, ScheduleRecord, ScheduleState
from ....model.values import instant_of
from ....rules.schedules import Due, due_ticks, job_of, next_tick, ticks_between
from ...port import Tx, Value
from ...statements import sql
from ..jobs.actions import cancel
from ..jobs.enqueue import enqueue
from ..jobs.queries import clock
from .schedules import APP, Operator, hold_schedule

PAGE: Final = 200
MOST_AT_ONCE: Final = 1_000


async def due_schedules(
    tx: Tx, after: tuple[int, ScheduleKey] | None = None
) -> tuple[int, list[tuple[int, ScheduleKey]]]:
    """Return the time and a page of due schedules, the longest overdue first, each with the time it was due."""
    tick, last = after or (-1, ScheduleKey("", ""))
    rows = await tx.all(sql.due_schedules, after_tick=tick, after_tenant=last.tenant, after_name=last.name, n=PAGE)
    return await clock(tx), [(due, ScheduleKey(tenant, name)) for due, tenant, name in rows]


async def seconds_to_next(tx: Tx, after: int) -> float | None:
    """Return the seconds until the next schedule is due that was not due yet at `after`; None where there is none."""
    row = await tx.one(sql.next_schedule, after=after)
    return None if row is None or row[0] is None else row[0] / SECOND


async def fire(tx: Tx, key: ScheduleKey, *, launched_at: int | None = None) -> Firing:
    """Make the jobs of a schedule's due ticks. A second caller finds nothing left to do.

    `launched_at` is when the caller started: an interval that was overdue then first waits for its cool-down.
    """
    schedule, now = await hold_schedule(tx, key)
    if schedule.state is not ScheduleState.ACTIVE:
        return Firing()
    try:
        due = _look(schedule, now)
    except UnknownZone:
        # Another machine, or this one after an upgrade, may know the zone: the schedule is not at fault.
        raise
    except InvalidInput as wrong:
        return await _break(tx, schedule, str(wrong))
    if until := _cooling(schedule, due, now, launched_at):
        guard = {"previous": schedule.last_tick, "version": schedule.version}
        await tx.one(sql.defer_schedule, tenant=key.tenant, name=key.name, **guard, until=until)
        return Firing()
    won = await tx.one(
        sql.advance_schedule,
        tenant=key.tenant,
        name=key.name,
        previous=schedule.last_tick,
        version=schedule.version,
        last_tick=due.last_tick,
        next_tick=due.next_tick,
    )
    return await _make_jobs(tx, schedule, due, now) if won else Firing()


async def run_now(tx: Tx, key: ScheduleKey, by: Operator = APP) -> Ran:
    """Make a job outside the ticks, under the same overlap policy. The next firing does not change."""
    schedule, now = await hold_schedule(tx, key)
    blocker = await _make_room(tx, schedule, schedule.last_job)
    answer = Ran(job_id=None, blocker=blocker)
    if blocker is None:
        job = await _enqueue(tx, schedule, now, now, ids.new())
        answer = Ran(job_id=job.id, blocker=None) if job.created else Ran(job_id=None, blocker=job.id)
    made = answer.job_id is not None
    await _count(tx, key, int(made), int(not made), answer.job_id)
    await by.record(tx, "schedule.run", key, None, {"job": answer.job_id})
    return answer


async def backfill(
    tx: Tx, key: ScheduleKey, start: int, end: int, by: Operator = APP, *, dry_run: bool = False
) -> Backfill:
    """Make the missing jobs of the ticks from `start` up to `end`, whatever the overlap policy."""
    schedule, now = await hold_schedule(tx, key)
    _check_range(schedule, start, end, now)
    ticks = ticks_between(schedule.timing, start, end, MOST_AT_ONCE)
    made = await tx.all(sql.ticks_between, tenant=key.tenant, schedule=key.name, start=start, until=end)
    known = {tick for (tick,) in made}
    missing = [tick for tick in ticks if tick not in known]
    if not dry_run:
        missing = [tick for tick in missing if await _fire_tick(tx, schedule, tick, now)]
        await _count(tx, key, len(missing), 0, None)
        change = {"start": start, "end": end, "jobs": len(missing)}
        await by.record(tx, "schedule.backfill", key, None, change)
    new = set(missing)
    return Backfill(
        name=key.name,
        made=tuple(instant_of(tick) for tick in missing),
        existing=tuple(instant_of(tick) for tick in ticks if tick not in new),
        dry_run=dry_run,
    )


def _look(schedule: ScheduleRecord, now: int) -> Due:
    due = due_ticks(schedule.timing, schedule.missed, schedule.max_missed, schedule.last_tick, now)
    if due.next_tick is None:
        raise InvalidInput("the cron expression never fires again; edit it")
    for tick in due.ticks[:1]:
        job_of(schedule, tick, now, "")
    return due


async def _break(tx: Tx, schedule: ScheduleRecord, error: str) -> Firing:
    key = schedule.key
    await tx.one(sql.break_schedule, tenant=key.tenant, name=key.name, version=schedule.version, error=error)
    return Firing(broken=error)


def _cooling(schedule: ScheduleRecord, due: Due, now: int, launched_at: int | None) -> int | None:
    """Return until when an interval waits that was overdue when its scheduler started; None where it need not."""
    if schedule.every is None or launched_at is None or not due.ticks:
        return None
    first, until = next_tick(schedule.timing, schedule.last_tick), launched_at + schedule.cooldown
    # If it is due at another time than its tick, it has waited once already: restarts do not postpone it for ever.
    has_waited = schedule.next_tick != first
    was_overdue = first is not None and first <= launched_at
    return until if was_overdue and not has_waited and launched_at <= now < until else None


async def _make_jobs(tx: Tx, schedule: ScheduleRecord, due: Due, now: int) -> Firing:
    jobs: list[str] = []
    skipped = due.skipped
    for tick in due.ticks:
        last = jobs[-1] if jobs else schedule.last_job
        if await _make_room(tx, schedule, last) or not (job_id := await _fire_tick(tx, schedule, tick, now)):
            skipped += 1
        else:
            jobs.append(job_id)
    await _count(tx, schedule.key, len(jobs), skipped, jobs[-1] if jobs else None)
    return Firing(tuple(jobs), skipped)


async def _fire_tick(tx: Tx, schedule: ScheduleRecord, tick: int, now: int) -> str | None:
    """Return the job made for a tick; None where the tick has one, or another job holds the dedupe key."""
    job_id = ids.new()
    at: dict[str, Value] = {"tenant": schedule.tenant, "schedule": schedule.name, "tick": tick}
    if await tx.one(sql.insert_tick, **at, job_id=job_id) is None:
        return None
    if (await _enqueue(tx, schedule, tick, now, job_id)).created:
        return job_id
    await tx.one(sql.forget_tick, **at)
    return None


async def _make_room(tx: Tx, schedule: ScheduleRecord, last_job: str | None) -> str | None:
    """Apply the overlap policy to jobs of this schedule that still run; return the job that prevents a new one."""
    if schedule.overlap == "allow":
        return None
    found = await tx.all(sql.live_jobs_of_schedule, tenant=schedule.tenant, schedule=schedule.name, last_job=last_job)
    live = [job_id for (job_id,) in found]
    if schedule.overlap == "skip":
        return live[-1] if live else None
    for job_id in live:
        await cancel(tx, job_id, reason=f"a newer run of schedule {schedule.name}")
    return None


async def _count(tx: Tx, key: ScheduleKey, fired: int, skipped: int, last_job: str | None) -> None:
    counted = {"fired": fired, "skipped": skipped, "last_job": last_job}
    await tx.one(sql.count_firing, tenant=key.tenant, name=key.name, **counted)


async def _enqueue(tx: Tx, schedule: ScheduleRecord, tick: int, now: int, job_id: str) -> Enqueued:
    try:
        return (await enqueue(tx, [job_of(schedule, tick, now, job_id)]))[0]
    except DuplicateJob as twin:
        return Enqueued(twin.job_id, False)


def _check_range(schedule: ScheduleRecord, start: int, end: int, now: int) -> None:
    if start >= end:
        raise InvalidInput("the range is empty; its end must be later than its start")
    if end > now:
        raise InvalidInput("the range ends in the future, which the schedule itself will fire; end it now or earlier")
    if schedule.every is not None and start < schedule.anchor:
        raise InvalidInput("the range begins before the interval's own start, where it has no ticks; begin it later")
    if schedule.pruned_to is not None and start < schedule.pruned_to:
        raise InvalidInput(
            "which ticks of that range made a job is no longer known; begin it later, or enqueue the task itself"
        )
