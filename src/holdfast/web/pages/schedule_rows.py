"""Schedules in the list: times in words, last runs, and the choices for editing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from ...clock import SECOND
from ...model.schedules import Schedule, ScheduledRun, ScheduleKey
from ...rules.cron_words import describe
from .templates import below, duration

TONES: Final = {"active": "good", "paused": "warn", "broken": "bad"}
MISSED: Final = (
    ("skip", "Skip"), ("one", "Run the latest"), ("all", "Run all, up to the maximum"),
)  # fmt: skip
OVERLAP: Final = (
    ("allow", "Allow overlap"), ("skip", "Skip this run"), ("cancel_previous", "Cancel the running job"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule in the list."""

    schedule: Schedule
    path: str
    text: str
    """The expression, or the interval."""
    words: str | None
    runs: list[ScheduledRun]
    """The last runs, oldest first."""

    @property
    def last(self) -> ScheduledRun | None:
        return self.runs[-1] if self.runs else None


def row_of(schedule: Schedule, runs: Mapping[ScheduleKey, Sequence[ScheduledRun]]) -> ScheduleRow:
    found = list(runs.get(schedule.key, ()))[::-1]
    return ScheduleRow(schedule, path_of(schedule.key), text_of(schedule), words_of(schedule), found)


def path_of(key: ScheduleKey, **query: str) -> str:
    """Return the address of a schedule's page."""
    query = {"tenant": key.tenant, **query} if key.tenant else query
    return below("schedules", key.name) + (f"?{urlencode(query)}" if query else "")


def text_of(schedule: Schedule) -> str:
    """Return the expression or interval as written."""
    return schedule.cron or f"every {duration(_micros(schedule.every))}"


def words_of(schedule: Schedule) -> str | None:
    """Describe the times in words; None where that would repeat the expression or be unclear."""
    return describe(schedule.cron, _micros(schedule.every))


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * SECOND)


def seconds_text(seconds: float) -> str:
    """Format a duration for a form: seconds, without needless digits."""
    micros = round(seconds * SECOND)
    return f"{micros // SECOND}" if micros % SECOND == 0 else f"{micros / SECOND:.6f}".rstrip("0")
