"""The time for which finished jobs are kept, by their state and their queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..clock import SECOND
from ..model.jobs import JobState
from ..model.queues import QueueRecord

DAY: Final = 86_400 * SECOND
EVICTED: Final = (JobState.SUCCEEDED, JobState.SKIPPED, JobState.CANCELLED, JobState.EXPIRED, JobState.FAILED)
"""The order in which a queue over its cap deletes finished jobs: the least interesting first."""


@dataclass(frozen=True)
class Retention:
    """Durations in microseconds, of finished jobs only."""

    succeeded: int = 7 * DAY
    unsuccessful: int = 30 * DAY
    """Failed, cancelled, expired, skipped."""
    audit: int = 365 * DAY
    queues: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By queue and state, for queues with their own settings."""
    results: Mapping[str, int] = field(default_factory=dict)
    """By queue: the time for which the result of a success is kept."""
    caps: Mapping[str, int] = field(default_factory=dict)
    """By queue: the largest number of finished jobs to keep."""

    def kept(self, queue: str, state: str) -> int:
        """Return the time for which such a job is kept after its end."""
        if (own := self.queues.get((queue, state))) is not None:
            return own
        return self.succeeded if state == JobState.SUCCEEDED else self.unsuccessful

    @property
    def spans(self) -> list[int]:
        """Return every duration that occurs, the shortest first."""
        return sorted({self.succeeded, self.unsuccessful, *self.queues.values()})


def with_queues(base: Retention, queues: Sequence[QueueRecord]) -> Retention:
    """Return the defaults with the settings of the queues."""
    own: dict[tuple[str, str], int] = {}
    results: dict[str, int] = {}
    for queue in queues:
        for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED, JobState.SKIPPED):
            if (kept := getattr(queue, f"keep_{state}")) is not None:
                own[queue.name, str(state)] = kept
        if queue.keep_result is not None:
            results[queue.name] = queue.keep_result
    caps = {queue.name: queue.cap for queue in queues if queue.cap is not None}
    return Retention(base.succeeded, base.unsuccessful, base.audit, own, results, caps)
