"""Destinations: where the events of an outbox go. `@app.destination` makes one of a function that takes a batch.

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
"""Returns when every event of the batch is delivered, or says which were not taken."""
Ready: TypeAlias = "Callable[[], bool | Awaitable[bool]]"
Gate: TypeAlias = "Callable[[OutboxEvent], bool]"

LARGEST_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationOptions:
    """How a destination's events are delivered and kept."""

    batch: int = 64
    """Events in one call, at most."""
    max_age: Seconds | str | None = "7d"
    """How long after its put an event is still tried; None is for ever."""
    cap: int | None = 10_000
    """Entries that are kept at most, those delivered and abandoned included; None is any number."""
    ordered: bool = False
    """Whether events of one key are delivered in the order of their puts, none before an earlier one has ended."""
    exclusive: bool = False
    """Whether one worker delivers for all, and another takes over when it is gone."""
    ready: Ready | None = None
    """Asked before each batch: while it says no, nothing is claimed."""
    gate: Gate | None = None
    """Asked for each event: one that it does not let pass waits at no cost, and is asked for again."""
    timeout: Seconds = 30
    """For one call."""
    overlap: int = 2
    """Batches that one worker has under way at once; one where they are ordered."""
    retry: RetryPolicy | None = None
    """After failures that pass: 60 s · 2^n up to 32 min, unless this says otherwise."""
    telemetry: Collection[str] | bool = ()
    """Kinds that are not put at all where HOLDFAST_CAPTURE is `false`; True for all of them."""

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
    """A destination as its app knows it. `deliver` is None where it is implemented elsewhere."""

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
        """Batches that are under way at once."""
        return 1 if self.wants.ordered else self.wants.overlap

    @property
    def role(self) -> str:
        """What the one worker leads in that delivers for all."""
        return self.name

    @property
    def timeout(self) -> float:
        return check_duration("timeout", self.wants.timeout) / SECOND

    def is_telemetry(self, kind: str) -> bool:
        marked = self.wants.telemetry
        return marked is True or (marked is not False and kind in marked)

    def __repr__(self) -> str:
        return f"<Destination {self.short!r}>"
