"""Schedules as tables and as JSON. The JSON field names are stable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..clock import SECOND
from ..errors import InvalidInput
from ..model.schedules import Schedule
from ..rules.schedules import local_time, webhook_of
from ..shapes.schedules import of_schedule
from .operator import for_people
from .output import instant, plain, print_facts, print_table


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
            ("webhook", webhook_of(s.options)),
            ("missed", f"all, up to {s.max_missed:,}" if s.missed == "all" else s.missed),
            ("overlap", s.overlap),
            ("jitter", for_people(s.jitter / SECOND) if s.jitter else None),
            ("cooldown", for_people(s.cooldown / SECOND) if s.every else None),
            ("next", _on_both_clocks(s)),
            ("processed through", instant(s.last_tick, exact=False)),
            ("runs, skipped", f"{s.fired:,}, {s.skipped:,}"),
            ("created by", f"{s.origin}, edited: {', '.join(s.edited)}" if s.edited else s.origin),
            ("last job", s.last_job),
            ("error", s.last_error),
        ]
    )
    if ticks:
        print_table(("tick", "job"), [(instant(tick, exact=False), job_id) for tick, job_id in ticks], empty="")


def schedule_data(schedule: Schedule) -> dict[str, Any]:
    return plain(of_schedule(schedule))


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
