"""A queue as operators set it: its state, and the defaults of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class QueueState(StrEnum):
    """The state of a queue: whether it accepts jobs, and whether it starts them."""

    ACTIVE = "active"
    """It accepts and starts jobs."""
    PAUSED = "paused"
    """It accepts jobs and starts none."""
    DRAINING = "draining"
    """It starts the jobs that it has and accepts no new ones."""
    DISABLED = "disabled"
    """It neither accepts nor starts jobs."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A queue's row. Durations are microseconds; None is the default."""

    name: str
    state: QueueState = QueueState.ACTIVE
    retry: str | None = None
    """A retry policy as JSON."""
    timeout: int | None = None
    keep_succeeded: int | None = None
    keep_failed: int | None = None
    keep_cancelled: int | None = None
    keep_expired: int | None = None
    keep_skipped: int | None = None
    keep_result: int | None = None
    """The time for which the result of a success is kept; None is as long as the job."""
    cap: int | None = None
    """The largest number of finished jobs to keep; None is unbounded."""
    events: str | None = None
    """The events of its jobs that are logged: `off`, `outcomes` or `all`; None is the default, outcomes."""
