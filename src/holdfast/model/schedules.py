"""A schedule as it is requested, as it is stored, and as programs see it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from .values import Instant, Withheld, decoded, instant_of, seconds_of

Missed: TypeAlias = Literal["skip", "one", "all"]
Overlap: TypeAlias = Literal["allow", "skip", "cancel_previous"]

MISSED: Final = ("skip", "one", "all")
OVERLAP: Final = ("allow", "skip", "cancel_previous")


class ScheduleState(StrEnum):
    """The states of a schedule."""

    ACTIVE = "active"
    PAUSED = "paused"
    BROKEN = "broken"
    """Its expression could not be read; edit it to fix it."""


class ScheduleKey(NamedTuple):
    """The key of a schedule: two tenants may each have one of the same name."""

    tenant: str
    """Empty for a schedule of no tenant."""
    name: str

    def __str__(self) -> str:
        return f"{self.name} of tenant {self.tenant}" if self.tenant else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times of a schedule: a cron expression in a zone, or an interval from an anchor on."""

    expression: str | None
    every: int | None
    zone: str
    anchor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """The definition of a schedule, complete and checked. Durations are microseconds."""

    tenant: str = ""
    """The tenant of its jobs."""
    name: str
    task: str
    payload: str
    queue: str
    options: str
    """The other options of the job, as JSON."""
    tick_argument: str | None
    expression: str | None
    every: int | None
    zone: str
    missed: Missed
    max_missed: int
    overlap: Overlap
    jitter: int
    cooldown: int

    @property
    def key(self) -> ScheduleKey:
        return ScheduleKey(self.tenant, self.name)

    @property
    def timing(self) -> Timing:
        return Timing(expression=self.expression, every=self.every, zone=self.zone)


FIELDS: Final = tuple(name for name in ScheduleSpec.__slots__ if name not in ScheduleKey._fields)
"""The fields that may be changed, in the order of the columns."""
TIMING_FIELDS: Final = frozenset({"expression", "every", "zone"})


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule: when it fires and what it makes. Durations are seconds."""

    tenant: str
    """The tenant of its jobs."""
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
    """The other options of its jobs."""
    missed: Missed
    max_missed: int
    overlap: Overlap
    jitter: float
    cooldown: float
    next_tick: Instant | None
    """The next tick; None unless active."""
    last_tick: Instant
    """Every tick up to here has been processed."""
    fired: int
    skipped: int
    last_job: str | None
    last_error: str | None
    origin: Literal["code", "runtime"]
    edited: tuple[str, ...]
    """The fields that an operator has changed, which redeployed code does not overwrite."""
    version: int
    created_at: Instant
    updated_at: Instant

    @property
    def key(self) -> ScheduleKey:
        return ScheduleKey(self.tenant, self.name)

    def without_payload(self) -> Schedule:
        """Return it without the arguments and the webhook URL of its jobs."""
        options = {name: value for name, value in self.options.items() if name != "webhook"}
        return msgspec.structs.replace(self, arguments=None, options=options)


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A schedule's whole row, in the order of its columns. Instants and durations are microseconds."""

    tenant: str
    """The tenant of its jobs."""
    name: str
    task: str
    payload: str
    queue: str
    options: str
    tick_argument: str | None
    expression: str | None
    every: int | None
    zone: str
    missed: Missed
    max_missed: int
    overlap: Overlap
    jitter: int
    cooldown: int
    anchor: int
    last_tick: int
    """Every tick up to here has been processed."""
    next_tick: int | None
    """The next tick; None unless active."""
    state: ScheduleState
    version: int
    origin: Literal["code", "runtime"]
    edited: tuple[str, ...]
    """The fields that an operator has changed, which redeployed code does not overwrite."""
    last_job: str | None
    fired: int
    skipped: int
    last_error: str | None
    pruned_to: int | None
    created_at: int
    updated_at: int

    @property
    def key(self) -> ScheduleKey:
        return ScheduleKey(self.tenant, self.name)

    @property
    def timing(self) -> Timing:
        return Timing(expression=self.expression, every=self.every, zone=self.zone, anchor=self.anchor)

    @property
    def spec(self) -> ScheduleSpec:
        """Return its definition, without its state and history."""
        given: dict[str, Any] = {name: getattr(self, name) for name in FIELDS}
        return ScheduleSpec(tenant=self.tenant, name=self.name, **given)

    @property
    def shown(self) -> Schedule:
        """Return the schedule as programs see it."""
        options = decoded(self.options)
        return Schedule(
            tenant=self.tenant,
            name=self.name,
            state=self.state,
            cron=self.expression,
            every=seconds_of(self.every),
            zone=self.zone,
            task=self.task,
            arguments=decoded(self.payload),
            tick_argument=self.tick_argument,
            queue=self.queue,
            options=options if isinstance(options, dict) else {},
            missed=self.missed,
            max_missed=self.max_missed,
            overlap=self.overlap,
            jitter=seconds_of(self.jitter),
            cooldown=seconds_of(self.cooldown),
            next_tick=instant_of(self.next_tick),
            last_tick=instant_of(self.last_tick),
            fired=self.fired,
            skipped=self.skipped,
            last_job=self.last_job,
            last_error=self.last_error,
            origin=self.origin,
            edited=self.edited,
            version=self.version,
            created_at=instant_of(self.created_at),
            updated_at=instant_of(self.updated_at),
        )


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A tick that made a job."""

    tick: Instant
    job_id: str = msgspec.field(name="job")


class ScheduledRun(Tick, frozen=True, kw_only=True):
    """A tick that made a job, and that job's state, which is None if the job was removed since."""

    state: str | None
    started_at: Instant | None
    finished_at: Instant | None


@dataclass(frozen=True, slots=True)
class Firing:
    """The result of processing a due schedule."""

    jobs: tuple[str, ...] = ()
    skipped: int = 0
    """Ticks that made no job, because the last one still runs or the policy skips them."""
    broken: str | None = None
    """The reason why it was disabled."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run now."""

    job_id: str | None = msgspec.field(name="job")
    """The job that it made."""
    blocker: str | None
    """The live job that the overlap policy refused to overlap."""


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a backfill."""

    name: str
    made: tuple[Instant, ...]
    """The ticks that made a job, or would in a dry run."""
    existing: tuple[Instant, ...]
    """Those that had one already."""
    dry_run: bool
