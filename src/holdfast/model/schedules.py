"""A schedule as it is requested and as it is stored. Instants and durations are microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

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
    """What a schedule is found by: two tenants may each have one of the same name."""

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
    """The definition of a schedule, complete and checked."""

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


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule's whole row, in the order of its columns."""

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


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A tick that made a job, and that job's state, which is None if the job was removed since."""

    tick: int
    job_id: str
    state: str | None
    started_at: int | None
    finished_at: int | None


@dataclass(frozen=True, slots=True)
class Firing:
    """The result of processing a due schedule."""

    jobs: tuple[str, ...] = ()
    skipped: int = 0
    """Ticks that made no job, because the last one still runs or the policy skips them."""
    broken: str | None = None
    """The reason why it was disabled."""


@dataclass(frozen=True, slots=True)
class RanNow:
    """The result of a run now."""

    job_id: str | None
    blocker: str | None = None
    """The live job that the overlap policy refused to overlap."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """The result of a backfill: the ticks that made a job, and those that had one already."""

    made: tuple[int, ...]
    existing: tuple[int, ...]
