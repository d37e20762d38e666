"""Compute a schedule's ticks, and which of those that are due make a job.

A tick is a nominal instant in microseconds, counted from the schedule's own past and never from the present, so every
process finds the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, islice, takewhile
from typing import Any, Final

import msgspec

from ..clock import SECOND
from ..errors import InvalidInput
from ..model.jobs import JobSpec
from ..model.schedules import Missed, ScheduleRecord, Timing
from .cron import check_zone, parse_cron

LATE: Final = 60 * SECOND
"""A tick that is older than this when it is first seen counts as missed, if missed ticks are skipped."""
_COUNTED: Final = 1_000
_GROWTH: Final = 8


@dataclass(frozen=True, slots=True)
class Due:
    """The decision about a schedule at one instant."""

    ticks: tuple[int, ...]
    """The ticks that make a job, the oldest first."""
    last_tick: int
    next_tick: int | None
    """None if it will never fire again."""
    skipped: int
    """Ticks skipped by the policy; not counted beyond a thousand."""


def ticks_after(timing: Timing, instant: int) -> Iterator[int]:
    """Yield every tick later than `instant`, in order."""
    if timing.every is not None:
        first = timing.anchor + max(1, (instant - timing.anchor) // timing.every + 1) * timing.every
        return (first + n * timing.every for n in count())
    assert timing.expression is not None
    return (tick * SECOND for tick in parse_cron(timing.expression, timing.zone).after(instant // SECOND))


def next_tick(timing: Timing, instant: int) -> int | None:
    return next(ticks_after(timing, instant), None)


def newest_ticks(timing: Timing, after: int, until: int, n: int) -> list[int]:
    """Return the newest `n` ticks later than `after` and not later than `until`, the oldest first."""
    # Searched backwards in growing steps: a schedule that paused for a year must not be walked through by seconds.
    span = 60 * SECOND
    while True:
        start = max(after, until - span)
        found = deque(takewhile(lambda tick: tick <= until, ticks_after(timing, start)), maxlen=n)
        if len(found) == n or start <= after:
            return list(found)
        span *= _GROWTH


def ticks_between(timing: Timing, start: int, end: int, limit: int) -> list[int]:
    """Return the ticks from `start` up to but without `end`; InvalidInput if there are more than `limit`."""
    found = list(islice(takewhile(lambda tick: tick < end, ticks_after(timing, start - 1)), limit + 1))
    if len(found) > limit:
        raise InvalidInput(f"more than {limit:,} ticks lie in that range; take a shorter one")
    return found


def due_ticks(timing: Timing, missed: Missed, max_missed: int, last_tick: int, now: int) -> Due:
    """Return the ticks since `last_tick` that make a job now. A clock that was set back makes none."""
    found = newest_ticks(timing, last_tick, now, max_missed if missed == "all" else 1)
    if not found:
        return Due((), last_tick, next_tick(timing, last_tick), 0)
    wanted = [] if missed == "skip" and now - found[-1] > LATE else found
    passed = sum(1 for _ in takewhile(lambda tick: tick <= now, islice(ticks_after(timing, last_tick), _COUNTED)))
    return Due(tuple(wanted), found[-1], next_tick(timing, found[-1]), max(0, passed - len(wanted)))


def jitter_of(name: str, tick: int, jitter: int) -> int:
    """Return a job's delay after its tick: the same in every process, spread evenly over `jitter`."""
    if jitter <= 0:
        return 0
    digest = hashlib.blake2b(f"{name}\x1f{tick}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % (jitter + 1)


# Fields that are left out: each job has its own, or the row has a column.
_OWN: Final = ("id", "task", "payload", "explicit_id", "at", "delay", "deadline_at", "trace", "tenant", "created_by")
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def options_of(spec: JobSpec) -> str:
    """Return a job's options as JSON, without its queue and its tenant, which have columns."""
    fields = msgspec.to_builtins(spec)
    route = {name: value for name, value in fields.pop("route").items() if value and name != "queue"}
    route["requires"] = sorted(route.get("requires", ()))
    kept = {name: value for name, value in fields.items() if name not in _OWN and value is not None}
    return json.dumps({"route": route, **kept}, sort_keys=True)


def webhook_of(options: str) -> str | None:
    """Return the URL that is notified of each job; None also if the options cannot be read."""
    try:
        _, url = json.loads(options)["webhook"]
    except (ValueError, TypeError, KeyError):
        return None
    return str(url)


def job_of(schedule: ScheduleRecord, tick: int, now: int, job_id: str) -> JobSpec:
    """Return the job for one tick. InvalidInput if the row is not what any version writes."""
    try:
        options: dict[str, Any] = json.loads(schedule.options)
        options["route"] = {**options.get("route", {}), "queue": schedule.queue}
        payload = _payload(schedule, tick)
        start = tick + jitter_of(str(schedule.key), tick, schedule.jitter)
        own = {"id": job_id, "task": schedule.task, "payload": payload, "at": start if start > now else None,
               "tenant": schedule.tenant, "created_by": f"schedule:{schedule.name}",
               "trace": origin_of(schedule)}  # fmt: skip
        return msgspec.convert({**options, **own}, JobSpec)
    except (ValueError, TypeError, KeyError, AttributeError) as wrong:
        raise InvalidInput(f"schedule {schedule.name!r} can make no job ({wrong}); edit or recreate it") from wrong


def origin_of(schedule: ScheduleRecord) -> str:
    """Return the schedule of a job as its trace carries it to the runs: for monitors of schedules."""
    when = {"cron": schedule.expression} if schedule.every is None else {"every": schedule.every // SECOND}
    return json.dumps({"schedule": schedule.name, **when, "zone": schedule.zone})


def passed_on(trace: str | None) -> str | None:
    """Return the trace for what a job causes, such as its hooks: those are not runs of its schedule."""
    return None if trace is None or trace.startswith('{"schedule"') else trace


def local_time(tick: int, zone: str) -> datetime:
    """Return a tick as its zone's clock shows it."""
    return (_EPOCH + timedelta(microseconds=tick)).astimezone(check_zone(zone))


def _payload(schedule: ScheduleRecord, tick: int) -> str:
    if schedule.tick_argument is None:
        return schedule.payload
    arguments = json.loads(schedule.payload)
    # Whole seconds of the zone's own clock: a nightly job must see the date of that night.
    shown = local_time(tick - tick % SECOND, schedule.zone).isoformat()
    return json.dumps({**arguments, schedule.tick_argument: shown}, ensure_ascii=False)
