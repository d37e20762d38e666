"""How schedules are shown: when in words, what their last runs came to, and what an edit of one may say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...clock import SECOND
from ...model.schedule import Schedule, ScheduledRun
from ...rules.cron_words import describe
from .addresses import below
from .filters import duration

TONES: Final = {"active": "good", "paused": "warn", "broken": "bad"}
MISSED: Final = (
    ("skip", "Skip them"), ("one", "Make up for the latest"), ("all", "Make up for all, up to the limit"),
)  # fmt: skip
OVERLAP: Final = (
    ("allow", "Start another beside it"), ("skip", "Skip the tick"), ("cancel_previous", "Cancel the one before"),
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
    """The oldest first."""

    @property
    def last(self) -> ScheduledRun | None:
        return self.runs[-1] if self.runs else None


def row_of(schedule: Schedule, runs: Mapping[str, Sequence[ScheduledRun]]) -> ScheduleRow:
    found = list(runs.get(schedule.name, ()))[::-1]
    return ScheduleRow(schedule, below("schedules", schedule.name), text_of(schedule), words_of(schedule), found)


def text_of(schedule: Schedule) -> str:
    """When, as it was written."""
    return schedule.expression or f"every {duration(schedule.every)}"


def words_of(schedule: Schedule) -> str | None:
    """When, in words; None where they would say the same, or nothing clear."""
    return describe(schedule.expression, schedule.every)


def seconds_text(micros: int) -> str:
    """As a form shows a length of time: seconds, without needless digits."""
    return f"{micros // SECOND}" if micros % SECOND == 0 else f"{micros / SECOND:.6f}".rstrip("0")
