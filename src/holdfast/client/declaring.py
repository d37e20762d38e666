"""What code says about limits of the whole cluster. Workers make it known when they start; an operator's word stands
above it."""

from __future__ import annotations

from ..errors import ConfigError
from ..options import Seconds
from ..rules.amounts import Amount
from ..storage.port import Op
from .breakers import declare_breaker
from .budgets import Limits, declare_budget
from .limits import declare_rate
from .quotas import declare_quota


class Declares:
    """The part of an app that declares."""

    @property
    def _scopes(self) -> dict[str, Op[None]]:
        # Made by the first that asks: the app need not know.
        found: dict[str, Op[None]] = self.__dict__.setdefault("_declared", {})
        return found

    @property
    def _said(self) -> dict[str, tuple[object, ...]]:
        said: dict[str, tuple[object, ...]] = self.__dict__.setdefault("_declared_as", {})
        return said

    def rate(self, scope: str, *, capacity: float | None = None, per_second: float) -> str:
        """Declare a token bucket for the whole cluster, and return its scope: `@app.task(rate=app.rate("smtp", …))`.

        Jobs with a `rate_key` have a bucket of that size for each key. `capacity`, how many may start at once, is
        `per_second` unless given, and at least 1.
        Workers make it known when they start. What an operator set since is not overwritten.
        """
        self._declare("rate", scope, (capacity, per_second), declare_rate(scope, capacity, per_second))
        return scope

    def breaker(self, scope: str, *, failures: int = 5, open_for: Seconds = 30) -> str:
        """Declare a circuit breaker for the whole cluster: `@app.task(breaker=app.breaker("stripe"))`.

        After so many failures in a row no job that names it runs for `open_for` seconds; then one tries. Workers make
        it known when they start. What an operator set since is not overwritten.
        """
        self._declare("breaker", scope, (failures, open_for), declare_breaker(scope, failures, open_for))
        return scope

    def budget(
        self,
        name: str,
        *,
        soft: Limits | None = None,
        every: Seconds | str | None = None,
        zone: str | None = None,
        within: str | None = None,
        **limits: Amount | None,
    ) -> str:
        """Declare a budget for the whole cluster: `app.budget("team", tokens=1_000_000, every="1d")`; its name.

        `soft` limits only warn, `every` says when it begins anew, `within` names the budget that it is a part of.
        Workers make it known when they start. What an operator set since is not overwritten.
        """
        said = (limits, soft, every, zone, within)
        self._declare("budget", name, said, declare_budget(name, limits, soft, every, zone, within))
        return name

    def quota(
        self, name: str, *, limit: int | None = None, window: Seconds | None = None, concurrency: int | None = None
    ) -> str:
        """Declare a quota for the whole cluster: `@app.task(quota=app.quota("api", limit=100, window=60))`."""
        said = (limit, window, concurrency)
        self._declare("quota", name, said, declare_quota(name, limit, window, concurrency))
        return name

    def _declare(self, kind: str, name: str, said: tuple[object, ...], op: Op[None]) -> None:
        key = f"{kind}:{name}"
        if self._said.setdefault(key, said) != said:
            raise ConfigError(f"{kind} {name!r} is declared twice, with different numbers; declare it once")
        self._scopes[key] = op
