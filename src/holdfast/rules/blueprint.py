"""The job that a schedule makes, kept as JSON in the schedule's row: any worker can make it, also one without the task.

Whatever a job may be asked for is kept, so that what later versions add needs no change here.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from ..clock import SECOND
from ..errors import InvalidInput
from ..model.job import JobSpec
from ..model.schedule import Schedule
from .cron import check_zone
from .ticks import jitter_of

# Fields that are left out: each job has its own, or the row has a column.
_OWN: Final = ("id", "task", "payload", "explicit_id", "at", "delay", "deadline_at", "trace", "created_by")
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def options_of(spec: JobSpec) -> str:
    """A job's options as JSON; its queue stands in a column."""
    fields = msgspec.to_builtins(spec)
    route = {name: value for name, value in fields.pop("route").items() if value and name != "queue"}
    route["requires"] = sorted(route.get("requires", ()))
    kept = {name: value for name, value in fields.items() if name not in _OWN and value is not None}
    return json.dumps({"route": route, **kept}, sort_keys=True)


def webhook_of(options: str) -> str | None:
    """The URL that is told what becomes of each job; None too where the options cannot be read."""
    try:
        _, url = json.loads(options)["webhook"]
    except (ValueError, TypeError, KeyError):
        return None
    return str(url)


def job_of(schedule: Schedule, tick: int, now: int, job_id: str) -> JobSpec:
    """The job for one tick. InvalidInput where the row is not what any version writes."""
    try:
        options: dict[str, Any] = json.loads(schedule.options)
        options["route"] = {**options.get("route", {}), "queue": schedule.queue}
        payload = _payload(schedule, tick)
        start = tick + jitter_of(schedule.name, tick, schedule.jitter)
        own = {"id": job_id, "task": schedule.task, "payload": payload, "at": start if start > now else None,
               "created_by": f"schedule:{schedule.name}"}  # fmt: skip
        return msgspec.convert({**options, **own}, JobSpec)
    except (ValueError, TypeError, KeyError, AttributeError) as wrong:
        raise InvalidInput(f"schedule {schedule.name!r} can make no job ({wrong}); edit it, or make it anew") from wrong


def local_time(tick: int, zone: str) -> datetime:
    """A tick as its zone's clock shows it."""
    return (_EPOCH + timedelta(microseconds=tick)).astimezone(check_zone(zone))


def _payload(schedule: Schedule, tick: int) -> str:
    if schedule.tick_argument is None:
        return schedule.payload
    arguments = json.loads(schedule.payload)
    # Whole seconds of the zone's own clock: a job of the night must see the date of that night.
    shown = local_time(tick - tick % SECOND, schedule.zone).isoformat()
    return json.dumps({**arguments, schedule.tick_argument: shown}, ensure_ascii=False)
