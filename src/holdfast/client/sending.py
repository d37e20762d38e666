"""The part of an app that sends: its destinations and their outboxes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any, TypeVar

from ..destinations import Deliver, Destination, DestinationOptions, Gate, Ready
from ..errors import ConfigError
from ..names import check_queue
from ..options import Seconds
from ..rules.retry import RetryPolicy
from .outbox import Outboxes

D = TypeVar("D", bound=Deliver)


class Sends:
    """Registers destinations with the app, and gives access to their outboxes."""

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
        if not isinstance(name, str):
            raise ConfigError('@app.destination needs a name; write @app.destination("cloud")')
        wants = {key: value for key, value in locals().items() if key not in ("self", "name")}
        options, app = DestinationOptions(**wants), _app(self)

        def decorate(deliver: D) -> D:
            if not callable(deliver):
                raise ConfigError(f"app.destination takes a function, not {deliver!r}")
            _check_takes_events(name, deliver)
            app._keep(Destination(app, check_queue(name), deliver, options))
            return deliver

        return decorate

    def declare_destination(self, name: str, *, cap: int | None = 10_000, **options: Any) -> None:
        """A destination whose function is elsewhere: this program puts events and delivers none."""
        app = _app(self)
        app._keep(Destination(app, check_queue(name), None, DestinationOptions(cap=cap, **options)))

    @cached_property
    def _outboxes(self) -> Outboxes:
        app = _app(self)
        return Outboxes(app.open, app.jobs, app._enqueuer, app._tasks, app._tenants.of)

    @property
    def outbox(self) -> Outboxes:
        """`app.outbox("cloud")` is where events are put that a destination gets; the rest is for operators."""
        if _app(self)._inline:
            raise ConfigError("an outbox needs a store; instead of inline mode use holdfast.testing.isolated and drain")
        return self._outboxes


def _check_takes_events(name: str, deliver: Any) -> None:
    try:
        inspect.signature(deliver).bind(None)
    except TypeError:
        how = "write: def deliver(events: list[holdfast.OutboxEvent])"
        raise ConfigError(f"the function of destination {name!r} must take a list of events; {how}") from None
    except ValueError:
        return  # A builtin that does not tell.


def _app(part: Sends) -> Any:
    """The app whose part this is."""
    return part
