"""Schedules as tables for people and as JSON for programs. The names of the JSON are a promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..clock import SECOND
from ..errors import InvalidInput
from ..model.schedule import Schedule
from ..rules.blueprint import local_time
from .operator import for_people
from .output import instant, print_facts, print_table
from .shapes import decoded


def print_schedules(found: Sequence[Schedule]) -> None:
    rows = [
        (s.name, str(s.state), _when(s), s.task, s.queue, instant(s.next_tick, exact=False), s.fired, s.skipped)
        for s in found
    ]
    columns = ("name", "state", "when", "task", "queue", "next", "fired#", "skipped#")
    print_table(columns, rows, empty="no schedules")


def print_schedule(schedule: Schedule, ticks: Sequence[tuple[int, str]]) -> None:
    s = schedule
    print_facts(
        [
            ("name", s.name),
            ("state", str(s.state)),
            ("when", _when(s)),
            ("task", s.task),
            ("arguments", s.payload),
            ("queue", s.queue),
            ("missed", f"all, up to {s.max_missed:,}" if s.missed == "all" else s.missed),
            ("overlap", s.overlap),
            ("jitter", for_people(s.jitter / SECOND) if s.jitter else None),
            ("cooldown", for_people(s.cooldown / SECOND) if s.every else None),
            ("next", _on_both_clocks(s)),
            ("dealt with up to", instant(s.last_tick, exact=False)),
            ("fired, skipped", f"{s.fired:,}, {s.skipped:,}"),
            ("made by", f"{s.origin}, edited: {', '.join(s.edited)}" if s.edited else s.origin),
            ("last job", s.last_job),
            ("error", s.last_error),
        ]
    )
    if ticks:
        print_table(("tick", "job"), [(instant(tick, exact=False), job_id) for tick, job_id in ticks], empty="")


def schedule_data(schedule: Schedule) -> dict[str, Any]:
    s = schedule
    return {
        "name": s.name,
        "state": str(s.state),
        "cron": s.expression,
        "every": None if s.every is None else s.every / SECOND,
        "zone": s.zone,
        "task": s.task,
        "arguments": decoded(s.payload),
        "tick_argument": s.tick_argument,
        "queue": s.queue,
        "options": decoded(s.options),
        "missed": s.missed,
        "max_missed": s.max_missed,
        "overlap": s.overlap,
        "jitter": s.jitter / SECOND,
        "cooldown": s.cooldown / SECOND,
        "next_tick": instant(s.next_tick),
        "last_tick": instant(s.last_tick),
        "fired": s.fired,
        "skipped": s.skipped,
        "last_job": s.last_job,
        "last_error": s.last_error,
        "origin": s.origin,
        "edited": list(s.edited),
        "version": s.version,
        "created_at": instant(s.created_at),
        "updated_at": instant(s.updated_at),
    }


def _when(schedule: Schedule) -> str:
    if schedule.every is not None:
        return f"every {for_people(schedule.every / SECOND)}"
    return f"{schedule.expression} {schedule.zone}"


def _on_both_clocks(schedule: Schedule) -> str | None:
    if schedule.next_tick is None:
        return None
    try:
        local = local_time(schedule.next_tick, schedule.zone).isoformat(sep=" ", timespec="seconds")
    except InvalidInput:
        local = f"no zone {schedule.zone}"
    return f"{instant(schedule.next_tick, exact=False)} ({local})"
