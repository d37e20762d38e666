"""A queue as operators set it: its state, and what its jobs get where nothing else says it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class QueueState(StrEnum):
    """The state of a queue: taking jobs or not, handing them out or not."""

    ACTIVE = "active"
    """It does both."""
    PAUSED = "paused"
    """It takes jobs and hands out none."""
    DRAINING = "draining"
    """It hands out what it has and takes no new jobs."""
    DISABLED = "disabled"
    """It does neither."""


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
    """The largest number of finished jobs to keep; None is without bound."""
    events: str | None = None
    """The events of its jobs that are logged: `off`, `outcomes` or `all`; None is the default, outcomes."""
