"""How jobs run: what a task says for all of them, and what one call says for its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from .errors import ConfigError
from .model.job import OnDuplicate
from .names import (
    check_affinity,
    check_attempts,
    check_capabilities,
    check_duration,
    check_limit,
    check_priority,
    check_queue,
)
from .rules.amounts import Amounts, check_reserve
from .rules.retry import RetryPolicy, check_policy
from .rules.versions import check_version

if TYPE_CHECKING:
    from .inventory import Inventory

Seconds: TypeAlias = "float | timedelta"
Isolate: TypeAlias = Literal["process"]
Captured: TypeAlias = Literal["stdout", "stderr", "logs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """How a task's jobs run, unless a call says otherwise."""

    queue: str = "default"
    priority: int = 0
    max_attempts: int | None = 5
    """Total runs, the first included; None is without limit."""
    retry: RetryPolicy | None = None
    timeout: Seconds | None = None
    """For one run. A coroutine is cancelled, a thread is asked, a process is killed."""
    isolate: Isolate | None = None
    capture: Sequence[Captured] = ()
    """What of a run's output becomes frames of its stream: "stdout", "stderr", "logs"."""
    concurrency: int | None = None
    """Jobs of this task that run at once, in the whole cluster."""
    rate: str | None = None
    """The scope of a token bucket made by `app.rate`; each run takes a token of it."""
    breaker: str | None = None
    """The scope of a circuit breaker made by `app.breaker`; while that is open, no job runs."""
    reserve: Mapping[str, Amounts] | None = None
    """What each run sets aside before it starts: amounts by budget and dimension."""
    quota: str | None = None
    """The quota that must let each run in."""
    requires: frozenset[str] = frozenset()
    """Capabilities that a worker must have."""
    affinity: str | None = None
    """What its jobs would like to find loaded: a worker that has it drains them before others."""
    version: str | None = None
    """The version of this code, such as "2.1": jobs may ask for a range of them."""
    inventory: Inventory | None = None
    """Where the affinity of each job is looked up when it is enqueued."""
    permanent_on: tuple[type[BaseException], ...] = ()
    """Exceptions that no retry can mend."""

    def __post_init__(self) -> None:
        check_queue(self.queue)
        check_priority(self.priority)
        check_attempts(self.max_attempts)
        check_policy(self.retry)
        if self.timeout is not None and check_duration("timeout", self.timeout) <= 0:
            raise ConfigError("timeout must be more than 0 seconds; leave it out for no timeout")
        if self.concurrency is not None:
            check_limit("concurrency", self.concurrency)
        check_reserve(self.reserve)
        check_capabilities("requires", self.requires)
        if self.affinity is not None:
            check_affinity(self.affinity)
        if self.version is not None:
            check_version(self.version)
        if isinstance(self.capture, str) or not set(self.capture) <= {"stdout", "stderr", "logs"}:
            raise ConfigError(f"capture is {self.capture!r}; use any of ('stdout', 'stderr', 'logs')")
        if self.isolate not in (None, "process"):
            raise ConfigError(f"isolate is {self.isolate!r}; use 'process', or leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """What one call asks for beyond its task's own options; None leaves the task's."""

    id: str | None = None
    queue: str | None = None
    priority: int | None = None
    delay: Seconds | None = None
    at: datetime | None = None
    max_attempts: int | None = None
    timeout: Seconds | None = None
    deadline: Seconds | datetime | None = None
    retry: RetryPolicy | None = None
    dedupe_key: str | None = None
    dedupe_scope: str | None = None
    dedupe_until: Literal["start", "failure", "finish"] | Seconds = "finish"
    on_duplicate: OnDuplicate = "existing"
    tenant: str | None = None
    tags: Sequence[str] = ()
    concurrency_key: str | None = None
    concurrency: int | None = None
    fair_key: str | None = None
    weight: float = 1.0
    rate: str | None = None
    breaker: str | None = None
    reserve: Mapping[str, Amounts] | None = None
    quota: str | None = None
    requires: Sequence[str] | None = None
    affinity: str | None = None
    version: str | None = None
    webhook: str | None = None
    webhook_events: Sequence[str] = ()
    connection: object | None = None
