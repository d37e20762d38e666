"""The page of one schedule: next and past runs, its definition, edit and backfill."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from ...clock import SECOND, SYSTEM_CLOCK
from ...model.schedules import Schedule
from ...rules.cron import check_zone
from ...shapes.values import decoded
from ..wire.call import Call
from ..wire.operation import Group
from .addresses import below
from .frame import Page
from .scheduleforms import asked_as
from .schedulerows import MISSED, OVERLAP, TONES, row_of

group = Group("Schedule", kind="page")

_NEXT: Final = 8
_RUNS: Final = 50
_AUDIT: Final = 10


class ScheduleQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tab."""

    tab: Literal["runs", "edit", "backfill"] = "runs"


@group.get("/schedules/{name}", needs="read")
async def show(call: Call, name: str, query: ScheduleQuery) -> Page:
    """Show a schedule."""
    return Page("schedule.html", await shows(call, name, query.tab))


async def shows(call: Call, name: str, tab: str, **more: Any) -> dict[str, Any]:
    """Return the context of the page."""
    schedules = call.client.schedules
    schedule: Schedule = await schedules.aget(name)
    runs, coming, audit = await asyncio.gather(
        schedules.aruns([schedule.name], _RUNS),
        schedules.anext_runs(name, _NEXT),
        call.client.audit.alist(target_kind="schedule", target=_key(call, name), limit=_AUDIT),
    )
    row, payload, path = row_of(schedule, runs), call.may("payload"), below("schedules", schedule.name)
    options = decoded(schedule.options)
    tabs = [("runs", "Runs", path)]
    if call.may("operate"):
        tabs += [("edit", "Edit", f"{path}?tab=edit"), ("backfill", "Backfill", f"{path}?tab=backfill")]
    return {
        "page": "schedules",
        "schedule": schedule,
        "row": row,
        "path": path,
        "tab": tab if call.may("operate") else "runs",
        "tabs": tabs,
        "tone": TONES[schedule.state],
        "coming": [(int(at.timestamp()) * SECOND, f"{at:%a %d %b, %H:%M:%S}") for at in coming],
        "runs": row.runs[::-1],
        "audit": audit,
        "payload": payload,
        "arguments": decoded(schedule.payload) if payload else None,
        "priority": options.get("priority", 0) if isinstance(options, dict) else 0,
        "tenant": options.get("tenant") if isinstance(options, dict) else None,
        "asked": asked_as(schedule, payload=payload),
        "missed": MISSED,
        "overlap": OVERLAP,
        "preview": None,
        "wrong": "",
        "span": _span(schedule),
        **more,
    }


def _span(schedule: Schedule) -> dict[str, str]:
    """Return the default range of a backfill: the last day, in the schedule's time zone."""
    now = datetime.fromtimestamp(SYSTEM_CLOCK.now() // SECOND, check_zone(schedule.zone)).replace(second=0)
    day = now.replace(hour=0, minute=0)
    return {"start": f"{day:%Y-%m-%dT%H:%M}", "end": f"{now:%Y-%m-%dT%H:%M}"}


def _key(call: Call, name: str) -> str:
    """Return the full name as in the audit log, including the tenant."""
    return f"{call.identity.tenant}/{name}" if call.identity.tenant else name
