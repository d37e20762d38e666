"""A queue as operators set it: its state, and the defaults of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from .stats import QueueStats
from .values import decoded, seconds_of


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


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The state and settings of a queue. Durations are seconds; None is the default."""

    name: str
    state: QueueState
    retry: Any
    """A retry policy as JSON."""
    timeout: float | None
    keep_succeeded: float | None
    keep_failed: float | None
    keep_cancelled: float | None
    keep_expired: float | None
    keep_skipped: float | None
    keep_result: float | None
    """The time for which the result of a success is kept; None is as long as the job."""
    cap: int | None
    """The largest number of finished jobs to keep; None is unbounded."""
    events: str
    """The events of its jobs that are logged: `off`, `outcomes` or `all`."""


class QueueBrief(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in a list."""

    name: str
    state: str
    jobs: dict[str, int]
    """The number of jobs in each state."""
    estimated: tuple[str, ...]
    """The states whose number is an estimate."""
    oldest_due: float | None
    """Seconds since the job that has waited longest could have started."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue whole. The settings are null for a caller who sees only one tenant's jobs."""

    name: str
    state: str
    settings: QueueSettings | None
    stats: QueueStats


@dataclass(frozen=True, slots=True)
class QueueRecord:
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

    @property
    def settings(self) -> QueueSettings:
        """Return the settings as programs see them."""
        return QueueSettings(
            name=self.name,
            state=self.state,
            retry=decoded(self.retry),
            timeout=seconds_of(self.timeout),
            keep_succeeded=seconds_of(self.keep_succeeded),
            keep_failed=seconds_of(self.keep_failed),
            keep_cancelled=seconds_of(self.keep_cancelled),
            keep_expired=seconds_of(self.keep_expired),
            keep_skipped=seconds_of(self.keep_skipped),
            keep_result=seconds_of(self.keep_result),
            cap=self.cap,
            events=self.events or "outcomes",
        )
