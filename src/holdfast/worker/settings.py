"""Settings of a worker. Durations are seconds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from ..clock import SECOND
from ..errors import ConfigError, InvalidInput
from ..names import check_affinity, check_capabilities, check_name, check_queue
from ..rules.retention import Retention
from ..rules.routing import RESERVED

# A hundred years: a time plus this must still be a valid time.
_LONGEST: Final = 100 * 366 * 86_400.0

_LONGEST_IDLE: Final = 3_600
# Fractions of the lease: how long before its end the worker fences itself, and how much of that handlers get to stop.
FENCE_MARGIN: Final = 1 / 6
FENCE_GRACE: Final = 1 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Validated when created, so that a wrong value is reported before anything runs."""

    queues: tuple[str, ...] = ()
    """Queues in order of preference; empty serves the queues of all registered tasks."""
    weights: tuple[str, ...] = ()
    """Queues with weights, such as mail=3: how often each comes first. Without weights `queues` is a strict order."""
    capabilities: tuple[str, ...] = ()
    """Capabilities that tasks can ask for with `requires`, such as gpu."""
    resident: tuple[str, ...] = ()
    """Affinities loaded when the worker starts, such as models on its GPU."""
    residents: int = 1
    """Number of affinities that can be loaded at once."""
    affinity_wait: float | None = None
    """Longest time that jobs with other affinities wait while the loaded ones are kept; None is without limit."""
    concurrency: int = 20
    """Jobs that run at once in this process."""
    lease: float = 30.0
    """Time after its last renewal when a worker is declared lost and its jobs are rescued."""
    grace: float = 25.0
    """Time that running jobs get to finish when the worker stops; the rest are handed back."""
    cancel_grace: float = 5.0
    """Time that a handler gets to end after it was asked to."""
    idle: float = 0.0
    """Rest while there is no work: then at most one statement in this many seconds, on average; 0: it never rests."""
    poll: float = 2.0
    """Longest time between two polls for work, if every wake-up is lost."""
    rescue_interval: float | None = None
    """Between two checks for lost workers; None is a third of the lease, 0 turns it off."""
    expire_interval: float = 1.0
    """Between two checks for passed deadlines; 0 turns it off."""
    lead_interval: float = 3.0
    """Between two renewals of leadership; 0: this worker never leads. Workers that do not lead check deadlines, waits,
    parked jobs and budgets fifteen times less often."""
    schedule_interval: float = 5.0
    """Longest time between two checks of the schedules; 0: it fires none."""
    split_interval: float = 1.0
    """Between two splits of the totals of queues over the live workers; 0 turns it off."""
    unpark_interval: float = 2.0
    """Between two checks for jobs that are parked in lanes with room; 0 turns it off."""
    resolve_interval: float = 5.0
    """Between two checks for what finished jobs trigger in flows, if every wake-up is lost; 0 turns it off."""
    wake_interval: float = 1.0
    """Longest time between two checks for timed-out waits; 0: it ends none."""
    budget_interval: float = 5.0
    """Between two checks of the budgets and quotas that jobs wait for; 0 turns it off."""
    webhook_interval: float = 1.0
    """Longest time between two checks for events to send to webhooks; 0: it sends none."""
    prune_interval: float = 5.0
    """Between two checks for expired jobs and records; 0: it deletes nothing."""
    sweep_interval: float = 60.0
    """Between two checks for the bytes of deleted artifacts; 0: it removes none."""
    keep_succeeded: float = 7 * 86_400.0
    """Retention of succeeded jobs, unless their queue says otherwise."""
    keep_failed: float = 30 * 86_400.0
    """Retention of jobs that failed, were cancelled, expired or were skipped."""
    keep_audit: float = 365 * 86_400.0
    """Retention of the audit log of operator actions."""
    keep_events: float = 7 * 86_400.0
    """Retention of the event log."""
    meter_interval: float = 10.0
    """Between two updates of the statistics: closed minutes and error counts; 0: it keeps none."""
    block_warning: float = 1.0
    """Log the code that blocks the event loop for this long; 0 turns it off."""
    name: str = ""
    """Display name of this worker; empty is its host and process."""

    def __post_init__(self) -> None:
        if not 2 <= self.lease <= 3600:
            raise ConfigError(f"lease must be between 2 s and 1 h, not {self.lease!r}")
        if not 1 <= self.concurrency <= 10_000:
            raise ConfigError(f"concurrency must be between 1 and 10,000, not {self.concurrency!r}")
        for name in ("grace", "cancel_grace", "block_warning", *_timings(self)):
            if not 0 <= getattr(self, name) <= _LONGEST:
                raise ConfigError(f"{name} must be 0 to {_LONGEST:.0f} seconds, not {getattr(self, name)!r}")
        if self.name:
            _check_own_name(self.name)
        weights_of(self.weights)
        self._check_routing()
        if self.idle and not 1 <= self.idle <= _LONGEST_IDLE:
            raise ConfigError(f"idle must be 0, or between 1 s and {_LONGEST_IDLE:,} s, not {self.idle!r}")
        if not 0.01 <= self.poll <= 60:
            raise ConfigError(f"poll must be between 0.01 s and 60 s, not {self.poll!r}")

    def _check_routing(self) -> None:
        for capability in check_capabilities("capabilities", self.capabilities):
            if capability.startswith(RESERVED):
                raise ConfigError(f"capabilities has {capability!r}; task: and worker: names are added automatically")
        for affinity in self.resident:
            check_affinity(affinity)
        if not 1 <= self.residents <= 1_000:
            raise ConfigError(f"residents must be between 1 and 1,000, not {self.residents!r}")
        if len(set(self.resident)) > self.residents:
            raise ConfigError(f"resident names {len(set(self.resident))} affinities, but residents is {self.residents}")
        if self.affinity_wait is not None and not 0 < self.affinity_wait <= _LONGEST:
            raise ConfigError(f"affinity_wait must be above 0, up to {_LONGEST:.0f} s, not {self.affinity_wait!r}")

    @property
    def retention(self) -> Retention:
        """Retention periods before the queues' own settings."""
        return Retention(
            round(self.keep_succeeded * SECOND), round(self.keep_failed * SECOND), round(self.keep_audit * SECOND)
        )

    @property
    def kept_events(self) -> int:
        """Retention of the event log in microseconds."""
        return round(self.keep_events * SECOND)


def _timings(settings: WorkerSettings) -> list[str]:
    """Return the names of the settings that are intervals or retention periods."""
    names = [field.name for field in fields(settings)]
    timings = [name for name in names if name.startswith("keep_") or name.endswith("_interval")]
    return [name for name in timings if getattr(settings, name) is not None]


def _check_own_name(name: str) -> None:
    try:
        check_name("name", name)
    except InvalidInput as wrong:
        raise ConfigError(str(wrong)) from None


def weights_of(texts: tuple[str, ...]) -> dict[str, float]:
    """Return weights by queue, from texts such as mail=3."""
    weights: dict[str, float] = {}
    for text in texts:
        queue, _, number = text.rpartition("=")
        try:
            weights[check_queue(queue)] = float(number)
        except ValueError:
            raise ConfigError(f"weights has {text!r}, which is not of the form queue=number, such as mail=3") from None
        except InvalidInput as wrong:
            raise ConfigError(f"weights has {text!r}: {wrong}") from None
        if not 0 < weights[queue] <= 1000:
            raise ConfigError(f"weights gives queue {queue!r} {number}; use a number above 0, up to 1,000")
    return weights
