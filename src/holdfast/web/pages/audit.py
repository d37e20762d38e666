"""The audit log: operator actions with time, reason and the values before and after."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

import msgspec

from ...errors import InvalidInput
from ...model.audit import AuditRecord
from ...model.schedules import ScheduleKey
from ...names import check_name
from ..wire.call import Call
from ..wire.operation import Group
from .forms import words_of
from .frame import Page
from .queue import DURATIONS
from .schedule_rows import path_of
from .templates import below, clock, duration

group = Group("Audit", kind="page")

_SHOWN: Final = 50
_SPANS: Final = frozenset({*(name for name, _, _ in DURATIONS), "span"})
_LONG_AGO: Final = 10**15
"""Numbers above this are times in microseconds."""
_WINDOWS: Final = {"1h": 1, "24h": 24, "7d": 168, "30d": 720}
_PLACES: Final = {"job": "jobs", "flow": "flows", "queue": "queues", "schedule": "schedules", "endpoint": "webhooks"}
"""The page for each kind of target."""
KINDS: Final = (
    "job", "flow", "queue", "limit", "rate", "breaker", "budget", "quota", "schedule", "worker", "key", "token",
    "webhook", "outbox", "access", "bulk",
)  # fmt: skip


class AuditQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters and the position in the list."""

    actor: str = ""
    action: str = ""
    kind: str = ""
    target: str = ""
    window: Literal["", "1h", "24h", "7d", "30d"] = ""
    before: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One changed value."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An audit record as shown on the page."""

    record: AuditRecord
    path: str | None
    changes: list[Change]
    is_refused: bool


@group.get("/audit", needs="read")
async def show(call: Call, query: AuditQuery) -> Page:
    """Show the records, newest first."""
    try:
        found = await call.client.audit.alist(**_filters(query), limit=_SHOWN + 1)
    except InvalidInput as wrong:
        return Page("audit.html", shows([], query, payload=True, wrong=words_of(wrong)), 400)
    return Page("audit.html", shows(found, query, payload=call.may("payload")))


def _filters(query: AuditQuery) -> dict[str, Any]:
    given = {"actor": query.actor, "action": query.action, "target_kind": query.kind, "target": query.target}
    checked = {
        name: check_name(name.replace("_", " "), text.strip()) if text.strip() else None for name, text in given.items()
    }
    hours = _WINDOWS.get(query.window)
    since = None if hours is None else datetime.now(UTC) - timedelta(hours=hours)
    return {**checked, "since": since, "before": check_name("before", query.before) if query.before else None}


def shows(found: Sequence[AuditRecord], query: AuditQuery, *, payload: bool, wrong: str = "") -> dict[str, Any]:
    """Return a page of records and the links to other pages."""
    rows = [row_of(record, payload=payload) for record in found[:_SHOWN]]
    fields = msgspec.structs.asdict(query)
    return {
        "page": "audit",
        "rows": rows,
        "query": query,
        "wrong": wrong,
        "kinds": KINDS,
        "lifted": [
            (name, value, address(query, **{name: "", "before": ""}))
            for name, value in fields.items()
            if value and name != "before"
        ],
        "older": address(query, before=rows[-1].record.id) if len(found) > _SHOWN else None,
        "newest": address(query, before="") if query.before else None,
        "withheld": not payload,
        "actor_links": {row.record.actor: address(query, actor=row.record.actor, before="") for row in rows},
        "action_links": {row.record.action: address(query, action=row.record.action, before="") for row in rows},
    }


def row_of(record: AuditRecord, *, payload: bool) -> AuditRow:
    place = _PLACES.get(record.target_kind)
    path = below(place, record.target) if place and record.target and record.action != "job.bulk" else None
    if record.target_kind == "schedule":
        path = path_of(ScheduleKey(record.tenant, record.target))
    changes = changes_of(record.before, record.after) if payload else []
    return AuditRow(record, path, changes, record.action.endswith("refused"))


def changes_of(was: Any, now: Any) -> list[Change]:
    """Return the differences by name; the whole value where it has no names."""
    if not isinstance(was, dict | None) or not isinstance(now, dict | None):
        return [Change("", None if was is None else said("", was), None if now is None else said("", now))]
    names = [*(was or {}), *(name for name in (now or {}) if name not in (was or {}))]
    pairs = [(name, (was or {}).get(name), (now or {}).get(name)) for name in names]
    whole = was is not None and now is not None
    return [
        Change(name, None if was is None else said(name, old), None if now is None else said(name, new))
        for name, old, new in pairs
        if not whole or old != new
    ]


def address(query: AuditQuery, **but: str) -> str:
    given = {**msgspec.structs.asdict(query), **but}
    text = urlencode({name: value for name, value in given.items() if value}, quote_via=quote)
    return f"/audit?{text}" if text else "/audit"


def said(name: str, value: Any) -> str:
    """Format a value for display; durations and times are stored in microseconds."""
    if isinstance(value, int) and not isinstance(value, bool):
        if name in _SPANS:
            return duration(value)
        if name.endswith(("_at", "_until")) and value > _LONG_AGO:
            return clock(value)
    if isinstance(value, dict) and not any(isinstance(inner, (dict, list)) for inner in value.values()):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list) and all(isinstance(inner, str) for inner in value):
        return ", ".join(value) or "none"
    return "none" if value is None else _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
