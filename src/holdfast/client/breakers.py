"""Circuit breakers of the whole cluster: `app.breakers`. Each method has an async version, and actions are audited."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from datetime import timedelta

from ..clock import SECOND
from ..errors import InvalidInput
from ..model.limits import Breaker
from ..names import check_duration, check_limit, check_name
from ..storage.ops.audit import audit
from ..storage.ops.limits import breakers
from ..storage.port import Op, Store, Tx
from .audit import removal
from .calls import reads, writes


class Breakers:
    """Read breakers, set them, open and close them by hand."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    @reads
    def list(self) -> Op[builtins.list[Breaker]]:
        """Return every breaker and its state."""

        async def run(tx: Tx) -> builtins.list[Breaker]:
            return [one.shown for one in await breakers.list_breakers(tx)]

        return Op(run)

    alist = list.awaiting

    @reads
    def get(self, scope: str) -> Op[Breaker]:
        """Return one breaker and its state; NotFound if there is none."""

        async def run(tx: Tx) -> Breaker:
            return (await breakers.get_breaker(tx, scope)).shown

        return Op(run)

    aget = get.awaiting

    @writes
    def set(
        self, scope: str, *, failures: int, open_for: float | timedelta, actor: str = "app", reason: str = ""
    ) -> Op[None]:
        """Create or change a breaker: after `failures` failures in a row it opens for `open_for` seconds."""
        name, most, rest = _checked(scope, failures, open_for)

        async def run(tx: Tx) -> None:
            await breakers.ensure(tx, name, most, rest, origin="operator")
            after = {"failures": most, "open_for": rest / SECOND}
            await audit(tx, actor=actor, action="breaker.set", target=name, reason=reason, after=after)

        return Op(run)

    aset = set.awaiting

    @writes
    def clear(self, scope: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Remove a breaker; False if there was none. Jobs that name it wait until there is one again."""
        return removal(
            lambda tx: breakers.remove(tx, scope), action="breaker.clear", target=scope, actor=actor, reason=reason
        )

    aclear = clear.awaiting

    @writes
    def trip(
        self, scope: str, open_for: float | timedelta | None = None, *, actor: str = "app", reason: str = ""
    ) -> Op[Breaker]:
        """Open a breaker by hand, for `open_for` seconds or its usual time; then one job is tried."""
        rest = None if open_for is None else _rest(open_for)

        async def run(tx: Tx) -> Breaker:
            breaker = await breakers.trip(tx, scope, rest)
            after = {"open_for": ((breaker.open_until or 0) - breaker.now) / SECOND}
            await audit(tx, actor=actor, action="breaker.trip", target=scope, reason=reason, after=after)
            return breaker.shown

        return Op(run)

    atrip = trip.awaiting

    @writes
    def reset(self, scope: str, *, actor: str = "app", reason: str = "") -> Op[Breaker]:
        """Close a breaker by hand, and release the jobs that wait for it."""

        async def run(tx: Tx) -> Breaker:
            before = await breakers.get_breaker(tx, scope)
            breaker = await breakers.reset(tx, scope)
            was = {"state": before.state, "failures": before.failures}
            await audit(tx, actor=actor, action="breaker.reset", target=scope, reason=reason, before=was)
            return breaker.shown

        return Op(run)

    areset = reset.awaiting


def declare_breaker(scope: str, failures: int, open_for: float | timedelta) -> Op[None]:
    """Declare a breaker in code; an operator's settings take precedence."""
    name, most, rest = _checked(scope, failures, open_for)
    return Op(lambda tx: breakers.ensure(tx, name, most, rest, origin="code"))


def _checked(scope: str, failures: int, open_for: float | timedelta) -> tuple[str, int, int]:
    return check_name("the breaker's name", scope), check_limit("failures", failures), _rest(open_for)


def _rest(open_for: float | timedelta) -> int:
    micros = check_duration("open_for", open_for)
    if micros == 0:
        raise InvalidInput("open_for is 0; give more seconds")
    return micros
