"""How jobs run: what a task says for all of them, and what one call says for its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from .errors import ConfigError
from .model.job import OnDuplicate
from .names import check_attempts, check_duration, check_limit, check_priority, check_queue
from .rules.retry import RetryPolicy, check_policy

Seconds: TypeAlias = "float | timedelta"
Isolate: TypeAlias = Literal["process"]


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
    concurrency: int | None = None
    """Jobs of this task that run at once, in the whole cluster."""
    rate: str | None = None
    """The scope of a token bucket made by `app.rate`; each run takes a token of it."""
    breaker: str | None = None
    """The scope of a circuit breaker made by `app.breaker`; while that is open, no job runs."""
    requires: frozenset[str] = frozenset()
    """Capabilities that a worker must have."""
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
    connection: object | None = None
