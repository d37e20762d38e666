"""Errors grouped by task, exception and stack trace."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from ...clock import SYSTEM_CLOCK
from ...model.stats import MINUTE, ErrorGroup, ErrorWhole, FailedRun
from ...model.values import instant_of
from ...shapes.jobs import error_line
from ..search.query import Search, write
from ..wire.call import Call
from ..wire.operation import Group
from .frame import Page
from .jobs import address
from .templates import error_path

group = Group("Errors", kind="page")

_SHOWN: Final = 100
_RUNS: Final = 50
_BARS: Final = 30
_WINDOWS: Final = {"1h": 60, "24h": 24 * 60, "7d": 7 * 24 * 60}


class ErrorsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters: the task and the time window."""

    task: str = ""
    window: Literal["1h", "24h", "7d", "all"] = "all"


class ErrorQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A query without parameters."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """An error group in the list."""

    group: ErrorGroup
    path: str
    bars: list[int]
    """Failed runs in the last hour, in equal parts."""
    recent: int


@group.get("/errors", needs="read")
async def show(call: Call, query: ErrorsQuery) -> Page:
    """Show the error groups, most recent first."""
    now = SYSTEM_CLOCK.now()
    minutes = _WINDOWS.get(query.window)
    since = None if minutes is None else instant_of(now - minutes * MINUTE)
    errors = call.client.errors
    groups, runs = await asyncio.gather(
        errors.alist(task=query.task or None, since=since, limit=_SHOWN),
        errors.aruns(since=_hour_ago(now), limit=1_000),
    )
    rows = rows_of(groups, runs, now)
    return Page(
        "errors.html",
        {
            "page": "errors",
            "rows": rows,
            "recent": sum(row.recent for row in rows),
            "full": len(groups) == _SHOWN,
            "window": query.window,
            "windows": ("all", *_WINDOWS),
            "task": query.task,
            "tasks": sorted({row.group.task for row in rows}),
        },
    )


@group.get("/errors/{fingerprint}", needs="read")
async def show_one(call: Call, fingerprint: str, query: ErrorQuery) -> Page:
    """Show one error group with its latest traceback and the affected jobs."""
    now = SYSTEM_CLOCK.now()
    errors = call.client.errors
    found, runs = await asyncio.gather(
        errors.ashow(fingerprint), errors.aruns(fingerprint=fingerprint, since=now - 7 * 24 * 60 * MINUTE, limit=1_000)
    )
    return Page("error_kind.html", _shows(found, runs, now))


def rows_of(groups: Sequence[ErrorGroup], runs: Sequence[FailedRun], now: int) -> list[ErrorRow]:
    """Return the error groups with their counts over the last hour."""
    times: defaultdict[str, list[int]] = defaultdict(list)
    for run in runs:
        times[run.fingerprint].append(run.at)
    return [
        ErrorRow(one, error_path(one.fingerprint), bars_of(times[one.fingerprint], now), len(times[one.fingerprint]))
        for one in groups
    ]


def bars_of(times: Sequence[int], now: int) -> list[int]:
    """Count the failures in each part of the last hour, oldest first."""
    start, part = _hour_ago(now), 60 * MINUTE // _BARS
    counts = Counter(min((at - start) // part, _BARS - 1) for at in times if at >= start)
    return [counts[i] for i in range(_BARS)]


def _hour_ago(now: int) -> int:
    # Rounded to whole parts, so that a live page does not differ by its age alone.
    part = 60 * MINUTE // _BARS
    return now // part * part - 60 * MINUTE + part


def _shows(found: ErrorWhole, runs: Sequence[FailedRun], now: int) -> dict[str, Any]:
    search = Search(state="failed", task=found.task, error=found.fingerprint)
    newest: dict[str, FailedRun] = {}
    for run in runs:
        newest.setdefault(run.job_id, run)
    states = Counter(run.state for run in newest.values())
    return {
        "page": "errors",
        "error": found,
        "bars": bars_of([run.at for run in runs], now),
        "recent": sum(run.at >= _hour_ago(now) for run in runs),
        "runs": [(run, error_line(run.error) or "") for run in list(newest.values())[:_RUNS]],
        "affected": len(newest),
        "mix": [(state, n) for state, n in sorted(states.items())],
        "failed": states["failed"],
        "queues": sorted({run.queue for run in runs}),
        "tenants": sorted({run.tenant for run in runs if run.tenant}),
        "search": write(search),
        "jobs": address(search),
    }
