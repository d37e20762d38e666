"""Circuit breakers of the whole cluster: `app.breakers`. Each method has an awaiting twin, and what acts is audited."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from datetime import timedelta

from ..clock import SECOND
from ..errors import InvalidInput
from ..model.limits import Breaker
from ..names import check_duration, check_limit, check_name
from ..storage.ops import breakers
from ..storage.ops.audit import audit
from ..storage.port import Op, Store, Tx
from .removal import removal


class Breakers:
    """See them, set them, open and close them by hand."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def list(self) -> builtins.list[Breaker]:
        """Every breaker and how it stands."""
        return self._store().read(Op(breakers.list_breakers))

    async def alist(self) -> builtins.list[Breaker]:
        return await self._store().aread(Op(breakers.list_breakers))

    def get(self, scope: str) -> Breaker:
        """One breaker and how it stands; NotFound if there is none."""
        return self._store().read(Op(lambda tx: breakers.get_breaker(tx, scope)))

    async def aget(self, scope: str) -> Breaker:
        return await self._store().aread(Op(lambda tx: breakers.get_breaker(tx, scope)))

    def set(
        self, scope: str, *, failures: int, open_for: float | timedelta, actor: str = "app", reason: str = ""
    ) -> None:
        """Make or change a breaker: after so many `failures` in a row it opens for `open_for` seconds."""
        self._store().write(_set(scope, failures, open_for, actor, reason))

    async def aset(
        self, scope: str, *, failures: int, open_for: float | timedelta, actor: str = "app", reason: str = ""
    ) -> None:
        await self._store().awrite(_set(scope, failures, open_for, actor, reason))

    def clear(self, scope: str, *, actor: str = "app", reason: str = "") -> bool:
        """Remove a breaker; False if there was none. Jobs that name it wait until there is one again."""
        return self._store().write(_clear(scope, actor, reason))

    async def aclear(self, scope: str, *, actor: str = "app", reason: str = "") -> bool:
        return await self._store().awrite(_clear(scope, actor, reason))

    def trip(
        self, scope: str, open_for: float | timedelta | None = None, *, actor: str = "app", reason: str = ""
    ) -> Breaker:
        """Open a breaker by hand, for `open_for` seconds or as long as it always opens; then one job tries."""
        return self._store().write(_trip(scope, open_for, actor, reason))

    async def atrip(
        self, scope: str, open_for: float | timedelta | None = None, *, actor: str = "app", reason: str = ""
    ) -> Breaker:
        return await self._store().awrite(_trip(scope, open_for, actor, reason))

    def reset(self, scope: str, *, actor: str = "app", reason: str = "") -> Breaker:
        """Close a breaker by hand, and let go what waits behind it."""
        return self._store().write(_reset(scope, actor, reason))

    async def areset(self, scope: str, *, actor: str = "app", reason: str = "") -> Breaker:
        return await self._store().awrite(_reset(scope, actor, reason))


def declare_breaker(scope: str, failures: int, open_for: float | timedelta) -> Op[None]:
    """What code says about a breaker; an operator's word stands above it."""
    name, most, rest = _checked(scope, failures, open_for)
    return Op(lambda tx: breakers.ensure(tx, name, most, rest, origin="code"))


def _set(scope: str, failures: int, open_for: float | timedelta, actor: str, reason: str) -> Op[None]:
    name, most, rest = _checked(scope, failures, open_for)

    async def run(tx: Tx) -> None:
        await breakers.ensure(tx, name, most, rest, origin="operator")
        after = {"failures": most, "open_for": rest / SECOND}
        await audit(tx, actor=actor, action="breaker.set", target=name, reason=reason, after=after)

    return Op(run)


def _clear(scope: str, actor: str, reason: str) -> Op[bool]:
    return removal(
        lambda tx: breakers.remove(tx, scope), action="breaker.clear", target=scope, actor=actor, reason=reason
    )


def _trip(scope: str, open_for: float | timedelta | None, actor: str, reason: str) -> Op[Breaker]:
    rest = None if open_for is None else _rest(open_for)

    async def run(tx: Tx) -> Breaker:
        breaker = await breakers.trip(tx, scope, rest)
        after = {"open_for": ((breaker.open_until or 0) - breaker.now) / SECOND}
        await audit(tx, actor=actor, action="breaker.trip", target=scope, reason=reason, after=after)
        return breaker

    return Op(run)


def _reset(scope: str, actor: str, reason: str) -> Op[Breaker]:
    async def run(tx: Tx) -> Breaker:
        before = await breakers.get_breaker(tx, scope)
        breaker = await breakers.reset(tx, scope)
        was = {"state": before.state, "failures": before.failures}
        await audit(tx, actor=actor, action="breaker.reset", target=scope, reason=reason, before=was)
        return breaker

    return Op(run)


def _checked(scope: str, failures: int, open_for: float | timedelta) -> tuple[str, int, int]:
    return check_name("the breaker's name", scope), check_limit("failures", failures), _rest(open_for)


def _rest(open_for: float | timedelta) -> int:
    micros = check_duration("open_for", open_for)
    if micros == 0:
        raise InvalidInput("open_for is 0; give more seconds")
    return micros
