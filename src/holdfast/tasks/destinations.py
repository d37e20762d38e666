"""Destinations: receivers of outbox events. `@app.destination` makes one from a function that takes a batch.

Its entries are jobs of a task and a queue that are both named `outbox.<name>`. The task has no function of its own:
entries are not run one by one, but claimed in batches by the relay of each worker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from ..clock import SECOND
from ..errors import ConfigError
from ..model.outbox import OutboxEvent, queue_of
from ..names import check_cap, check_duration, check_limit
from ..outcomes import Rejected
from ..rules.durations import check_span
from ..rules.outbox import RETRY
from ..rules.reserved import check_open_task
from ..rules.retry import RetryPolicy, check_policy
from .functions import is_async
from .options import Seconds, TaskOptions
from .task import Enqueuer, JobRequest, Task

Deliver: TypeAlias = "Callable[[list[OutboxEvent]], Rejected | Awaitable[Rejected | None] | None]"
"""Returns when every event of the batch is delivered, or returns those that were rejected."""
Ready: TypeAlias = "Callable[[], bool | Awaitable[bool]]"
Gate: TypeAlias = "Callable[[OutboxEvent], bool]"

LARGEST_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationOptions:
    """Options for the delivery and retention of a destination's events."""

    batch: int = 64
    """Maximum number of events per call."""
    max_age: Seconds | str | None = "7d"
    """Time after its put for which an event is retried; None is for ever."""
    cap: int | None = 10_000
    """Maximum number of entries kept, including delivered and abandoned ones; None is any number."""
    ordered: bool = False
    """Deliver events of one key in the order of their puts, none before an earlier one has ended."""
    exclusive: bool = False
    """Let one worker deliver for all; another takes over when it is gone."""
    ready: Ready | None = None
    """Called before each batch: while it returns False, nothing is claimed."""
    gate: Gate | None = None
    """Called for each event: one that it holds back is checked again later, without using an attempt."""
    timeout: Seconds = 30
    """Timeout of one call."""
    overlap: int = 2
    """Batches that one worker delivers at once; always one if ordered."""
    retry: RetryPolicy | None = None
    """Retry policy for transient failures; by default 60 s · 2^n up to 32 min."""
    telemetry: Collection[str] | bool = ()
    """Kinds of events that are dropped if HOLDFAST_CAPTURE is `false`; True for all of them."""

    def __post_init__(self) -> None:
        if not 1 <= check_limit("batch", self.batch) <= LARGEST_BATCH:
            raise ConfigError(f"batch is {self.batch}; use 1 to {LARGEST_BATCH:,}")
        if not 1 <= check_limit("overlap", self.overlap) <= 64:
            raise ConfigError(f"overlap is {self.overlap}; use 1 to 64")
        if self.cap is not None and check_cap(self.cap) < 1:
            raise ConfigError("cap is 0; give 1 or more, or None for any number")
        if check_duration("timeout", self.timeout) == 0:
            raise ConfigError("timeout must be more than 0 seconds")
        if isinstance(self.telemetry, str):
            raise ConfigError("telemetry must be a list of kinds, or True; write telemetry=[…]")
        for name, asked in (("ready", self.ready), ("gate", self.gate)):
            if asked is not None and not callable(asked):
                raise ConfigError(f"{name} is {asked!r}; give a function that answers True or False")
        check_policy(self.retry)
        if self.max_age is not None and check_span("max_age", self.max_age) <= 0:
            raise ConfigError("max_age must be more than 0 seconds, or None")


class Destination(Task[..., None]):
    """A destination registered with an app. `deliver` is None if it is implemented elsewhere."""

    def __init__(self, app: Enqueuer, short: str, deliver: Deliver | None, options: DestinationOptions) -> None:
        queue = queue_of(short)
        super().__init__(app, None, queue, TaskOptions(queue=queue, max_attempts=None))
        self.short = short
        self.deliver = deliver
        self.wants = options
        self.is_async = deliver is not None and is_async(deliver)
        age = None if options.max_age is None else check_span("max_age", options.max_age)
        self.policy = replace(options.retry or RETRY, max_age=age)

    def job(self, /, *_args: Any, **_kwargs: Any) -> JobRequest[None]:
        """Raise ReservedName: events are put into an outbox, which checks its cap and their order."""
        check_open_task(self.name)
        raise AssertionError

    def read(self, arguments: object, options: object = None) -> JobRequest[None]:
        """Raise ReservedName, as `job` does."""
        return self.job()

    @property
    def flights(self) -> int:
        """Batches that are delivered at once."""
        return 1 if self.wants.ordered else self.wants.overlap

    @property
    def role(self) -> str:
        """Leader role of the one worker that delivers for all."""
        return self.name

    @property
    def timeout(self) -> float:
        return check_duration("timeout", self.wants.timeout) / SECOND

    def is_telemetry(self, kind: str) -> bool:
        marked = self.wants.telemetry
        return marked is True or (marked is not False and kind in marked)

    def __repr__(self) -> str:
        return f"<Destination {self.short!r}>"
