"""The part of an app that sends: its destinations and their outboxes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ..destinations import Deliver, Destination, DestinationOptions, Gate, Ready
from ..errors import ConfigError
from ..names import check_queue
from ..options import Seconds
from ..rules.retry import RetryPolicy
from .outboxes import Outboxes

if TYPE_CHECKING:
    from .enqueuer import Enqueuer
    from .jobs import Jobs

D = TypeVar("D", bound=Deliver)


class Sends:
    """What the app has for it is declared here, and made there."""

    if TYPE_CHECKING:
        jobs: Jobs
        _enqueuer: Enqueuer
        _tasks: dict[str, Any]
        _tenants: Any
        _inline: Any
        open: Any
        _keep: Any

    def destination(
        self,
        name: str,
        *,
        batch: int = 64,
        max_age: Seconds | str | None = "7d",
        cap: int | None = 10_000,
        ordered: bool = False,
        exclusive: bool = False,
        ready: Ready | None = None,
        gate: Gate | None = None,
        timeout: Seconds = 30,
        overlap: int = 2,
        retry: RetryPolicy | None = None,
        telemetry: Collection[str] | bool = (),
    ) -> Callable[[D], D]:
        """Where events go: `@app.destination("cloud")` over a `def` or `async def` that takes a list of `OutboxEvent`.

        It returns when all of them are delivered, returns `Rejected` for those that were not taken, or raises. The
        options are those of `DestinationOptions`. The function stays what it is.
        """
        wants = {key: value for key, value in locals().items() if key not in ("self", "name")}
        options = DestinationOptions(**wants)

        def decorate(deliver: D) -> D:
            if not callable(deliver):
                raise ConfigError(f"app.destination takes a function, not {deliver!r}")
            self._keep(Destination(self, check_queue(name), deliver, options))  # type: ignore[arg-type]
            return deliver

        return decorate

    def declare_destination(self, name: str, *, cap: int | None = 10_000, **options: Any) -> None:
        """A destination whose function is elsewhere: this program puts events and delivers none."""
        wants = DestinationOptions(cap=cap, **options)
        self._keep(Destination(self, check_queue(name), None, wants))  # type: ignore[arg-type]

    @cached_property
    def _outboxes(self) -> Outboxes:
        return Outboxes(self.open, self.jobs, self._enqueuer, self._tasks, self._tenants.of)

    @property
    def outbox(self) -> Outboxes:
        """`app.outbox("cloud")` is where events are put that a destination gets; the rest is for operators."""
        if self._inline:
            raise ConfigError("an outbox needs a store, and inline mode has none; use holdfast.testing.isolated and drain")
        return self._outboxes
