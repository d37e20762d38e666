"""How long a finished job is kept: by how it ended, and by what its queue says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..clock import SECOND
from ..model.job import JobState
from ..model.queue import QueueSettings

DAY: Final = 86_400 * SECOND


@dataclass(frozen=True)
class Retention:
    """Durations in microseconds. What is live is never of concern here."""

    succeeded: int = 7 * DAY
    unsuccessful: int = 30 * DAY
    """Failed, cancelled, expired, skipped."""
    audit: int = 365 * DAY
    queues: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By queue and state, where the queue has a word of its own."""
    results: Mapping[str, int] = field(default_factory=dict)
    """By queue: how long the result of a success is kept."""

    def kept(self, queue: str, state: str) -> int:
        """How long such a job is kept after its end."""
        if (own := self.queues.get((queue, state))) is not None:
            return own
        return self.succeeded if state == JobState.SUCCEEDED else self.unsuccessful

    @property
    def spans(self) -> list[int]:
        """Every duration that occurs, the shortest first."""
        return sorted({self.succeeded, self.unsuccessful, *self.queues.values()})


def with_queues(base: Retention, queues: Iterable[QueueSettings]) -> Retention:
    """The defaults with what the queues say."""
    own: dict[tuple[str, str], int] = {}
    results: dict[str, int] = {}
    for queue in queues:
        for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED, JobState.SKIPPED):
            if (kept := getattr(queue, f"keep_{state}")) is not None:
                own[queue.name, str(state)] = kept
        if queue.keep_result is not None:
            results[queue.name] = queue.keep_result
    return Retention(base.succeeded, base.unsuccessful, base.audit, own, results)
