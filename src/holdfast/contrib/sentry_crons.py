"""Sentry's monitors of schedules: the name, the configuration and the check-ins of each."""

from __future__ import annotations

import json
import math
import re
import uuid
from functools import lru_cache
from typing import Any, Final, Literal

from sentry_sdk.crons import capture_checkin

from ..clock import SECOND
from ..model.jobs import Claimed

_UNITS: Final = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60))
_NOT_IN_SLUG: Final = re.compile(r"[^a-z0-9_]+")
_LONGEST_SLUG: Final = 50
_CRON_FIELDS: Final = 5


def check_in(job: Claimed, status: Literal["in_progress", "ok", "error"]) -> None:
    """Report the state of a job that a schedule made; nothing for other jobs, and for schedules finer than a minute."""
    schedule = schedule_of(job.trace)
    if schedule is None or (when := _when(schedule)) is None:
        return
    config: dict[str, Any] = {"schedule": when, "timezone": schedule["zone"]}
    if job.timeout is not None:
        config["max_runtime"] = max(1, math.ceil(job.timeout / SECOND / 60))
    capture_checkin(
        monitor_slug=slug_of(schedule["schedule"], job.tenant),
        # The same for each run of the job, in any process.
        check_in_id=uuid.uuid5(uuid.NAMESPACE_OID, f"{job.id}/{job.generation}").hex,
        status=status,
        monitor_config=config,  # type: ignore[arg-type]
    )


def schedule_of(trace: str | None) -> dict[str, Any] | None:
    """Return the schedule that made a job, as its trace carries it."""
    return _read(trace) if trace is not None and trace.startswith('{"schedule"') else None


@lru_cache
def _read(trace: str) -> dict[str, Any] | None:
    try:
        return dict(json.loads(trace))
    except ValueError:
        return None


def slug_of(schedule: str, tenant: str) -> str:
    """Return the name of the monitor: of lower-case letters, digits, dashes and underscores."""
    text = f"{tenant}-{schedule}" if tenant else schedule
    return _NOT_IN_SLUG.sub("-", text.lower()).strip("-")[:_LONGEST_SLUG]


def _when(schedule: dict[str, Any]) -> dict[str, Any] | None:
    """Return the times as Sentry has them. Its finest interval is a minute; an uneven one is rounded up to minutes."""
    if (cron := schedule.get("cron")) is not None:
        fields = len(str(cron).split())
        return None if fields > _CRON_FIELDS else {"type": "crontab", "value": cron}
    if (every := int(schedule["every"])) < 60:
        return None
    unit, size = next(((unit, size) for unit, size in _UNITS if every % size == 0), ("minute", 60))
    return {"type": "interval", "value": math.ceil(every / size), "unit": unit}
