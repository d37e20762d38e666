"""Parsing of schedule forms into what the store takes; unchanged fields are left out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from ...client.schedules import StoredSchedules
from ...clock import SECOND, SYSTEM_CLOCK
from ...errors import InvalidInput
from ...model.schedules import Schedule
from ...rules.cron import check_zone
from ..wire.call import Call
from .forms import ActForm, number_of, span_of
from .schedule_rows import seconds_text

_Short = Annotated[str, msgspec.Meta(max_length=256)]
_Text = Annotated[str, msgspec.Meta(max_length=900_000)]
_PREVIEWED: Final = 5


class ScheduleForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An action on a schedule; `tenant` is empty for one of no tenant, or the user's own."""

    tenant: _Short = ""


class EditForm(ScheduleForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A schedule as entered: either an expression or an interval."""

    cron: _Short = ""
    every: _Short = ""
    zone: _Short = ""
    arguments: _Text = ""
    queue: _Short = ""
    priority: _Short = ""
    missed: _Short = ""
    max_missed: _Short = ""
    overlap: _Short = ""
    jitter: _Short = ""
    preview: _Short = ""


class NewForm(EditForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new schedule."""

    name: _Short = ""
    task: _Short = ""


class BackfillForm(ScheduleForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A range of time, in the schedule's time zone."""

    start: _Short
    end: _Short


def schedules_of(call: Call, tenant: str) -> StoredSchedules:
    """Return the schedules of a tenant, or without one those of no tenant or the user's own."""
    schedules: StoredSchedules = call.client.schedules
    return schedules.of(tenant) if tenant else schedules


def asked_of(form: EditForm) -> dict[str, Any]:
    """Return the entered values, to show them again."""
    asked = msgspec.structs.asdict(form)
    if isinstance(form, NewForm) and not form.name:
        asked |= {"zone": "UTC", "missed": "one", "overlap": "allow", "arguments": "{}"}
    return asked


def asked_as(schedule: Schedule, *, payload: bool) -> dict[str, str]:
    """Return the form of an existing schedule."""
    return {
        "cron": schedule.cron or "",
        "every": "" if schedule.every is None else seconds_text(schedule.every),
        "zone": schedule.zone,
        "arguments": json.dumps(schedule.arguments, ensure_ascii=False, indent=2) if payload else "",
        "queue": schedule.queue,
        "priority": str(schedule.options.get("priority", 0)),
        "missed": schedule.missed,
        "max_missed": str(schedule.max_missed),
        "overlap": schedule.overlap,
        "jitter": seconds_text(schedule.jitter),
    }


def changes_of(form: EditForm, schedule: Schedule | None) -> dict[str, Any]:
    """Return the changes: fields that differ from the schedule, or all given fields of a new one."""
    before = {} if schedule is None else asked_as(schedule, payload=True)
    given = {name: getattr(form, name).strip() for name in ("cron", "every", "zone", "queue", "missed", "overlap")}
    changes: dict[str, Any] = {name: text for name, text in given.items() if text and text != before.get(name)}
    if form.cron.strip() and form.every.strip():
        raise InvalidInput("give either a cron expression or an interval, not both")
    for name in ("every", "jitter"):
        changes |= _changed(name, span_of(name, getattr(form, name)), span_of(name, before.get(name, "")))
    for name in ("priority", "max_missed"):
        changes |= _changed(name, number_of(name, getattr(form, name)), number_of(name, before.get(name, "")))
    if form.arguments.strip():
        was = None if schedule is None else schedule.arguments
        changes |= _changed("arguments", _arguments(form.arguments), was)
    return {name: value for name, value in changes.items() if value != {} or schedule is not None}


def preview_of(call: Call, form: EditForm) -> list[int]:
    """Return the next runs, in microseconds."""
    now = SYSTEM_CLOCK.now()
    if form.every.strip():
        span = round((span_of("every", form.every) or 0) * SECOND)
        return [now + span * n for n in range(1, _PREVIEWED + 1)]
    after = datetime.fromtimestamp(now // SECOND, UTC)
    found = call.app.schedules.preview(form.cron, zone=form.zone or "UTC", after=after, count=_PREVIEWED)
    return [int(at.timestamp()) * SECOND for at in found]


def instant_of(what: str, text: str, zone: str) -> datetime:
    """Parse a local time from a datetime field, in the given zone."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInput(f"{what} is {text!r}; give a date and a time, such as 2026-03-01T06:00") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=check_zone(zone))


def _changed(name: str, value: Any, before: Any) -> dict[str, Any]:
    return {} if value is None or value == before else {name: value}


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise InvalidInput(f"the arguments: not valid JSON: {wrong}") from None
    if not isinstance(found, dict):
        raise InvalidInput('the arguments must be an object by name, such as {"n": 1}')
    return found
