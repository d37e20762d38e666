"""Schedules, the ticks that made a job, and what acting on them made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..clock import SECOND
from ..model.schedules import Backfill as BackfillRecord
from ..model.schedules import Missed, Overlap, RanNow, ScheduleState
from ..model.schedules import Schedule as ScheduleRecord
from ..model.values import Instant, Withheld, decoded, instant_of, seconds_of
from .bulk import Changed


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When it fires and what it makes. Durations are seconds."""

    tenant: str
    name: str
    state: ScheduleState
    cron: str | None
    every: float | None
    zone: str
    task: str
    arguments: Withheld
    tick_argument: str | None
    queue: str
    options: Any
    missed: Missed
    max_missed: int
    overlap: Overlap
    jitter: float
    cooldown: float
    next_tick: Instant | None
    last_tick: Instant | None
    fired: int
    skipped: int
    last_job: str | None
    last_error: str | None
    origin: str
    edited: list[str]
    version: int
    created_at: Instant | None
    updated_at: Instant | None


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A tick that made a job."""

    tick: Instant | None
    job: str


class ScheduleMoved(Changed, frozen=True, kw_only=True):
    """A schedule after it was paused, resumed or edited."""

    schedule: Schedule


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A run now: the job that it made, or the live one for whose sake it made none."""

    job: str | None
    blocker: str | None


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """The ticks that made a job, or would in a dry run, and those that had one."""

    name: str
    made: list[Instant]
    existing: list[Instant]
    dry_run: bool


class NextRuns(msgspec.Struct, frozen=True, kw_only=True):
    """When it fires next, in UTC."""

    next: list[Instant]


def of_schedule(schedule: ScheduleRecord, *, payload: bool = True) -> Schedule:
    """A schedule whole. Without `payload` its arguments are withheld, and the URL that its jobs tell of themselves."""
    s = schedule
    return Schedule(
        tenant=s.tenant,
        name=s.name,
        state=s.state,
        cron=s.expression,
        every=seconds_of(s.every),
        zone=s.zone,
        task=s.task,
        arguments=decoded(s.payload) if payload else None,
        tick_argument=s.tick_argument,
        queue=s.queue,
        options=decoded(s.options) if payload else _without_url(decoded(s.options)),
        missed=s.missed,
        max_missed=s.max_missed,
        overlap=s.overlap,
        jitter=s.jitter / SECOND,
        cooldown=s.cooldown / SECOND,
        next_tick=instant_of(s.next_tick),
        last_tick=instant_of(s.last_tick),
        fired=s.fired,
        skipped=s.skipped,
        last_job=s.last_job,
        last_error=s.last_error,
        origin=s.origin,
        edited=list(s.edited),
        version=s.version,
        created_at=instant_of(s.created_at),
        updated_at=instant_of(s.updated_at),
    )


def of_tick(made: tuple[int, str]) -> Tick:
    return Tick(tick=instant_of(made[0]), job=made[1])


def of_run(ran: RanNow) -> Ran:
    return Ran(job=ran.job_id, blocker=ran.blocker)


def of_backfill(name: str, done: BackfillRecord, *, dry_run: bool) -> Backfill:
    made, existing = ([instant_of(tick) for tick in ticks] for ticks in (done.made, done.existing))
    return Backfill(name=name, made=made, existing=existing, dry_run=dry_run)


def of_runs(runs: Sequence[datetime]) -> NextRuns:
    return NextRuns(next=[at.astimezone(UTC) for at in runs])


def _without_url(options: Any) -> Any:
    if not isinstance(options, dict):
        return None
    return {name: value for name, value in options.items() if name != "webhook"}
