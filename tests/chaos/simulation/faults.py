"""What goes wrong, how often and when, drawn from one seed. Each has its own mixture, mostly without some of it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

from holdfast.errors import OutcomeUnknown, StorageUnavailable
from holdfast.storage.port import Tx

BROKEN = {
    "busy": (sqlite3.SQLITE_BUSY, "database is locked"),
    "full": (sqlite3.SQLITE_FULL, "database or disk is full"),
    "i/o error": (sqlite3.SQLITE_IOERR, "disk I/O error"),
}
_KINDS = (*BROKEN, "away", "unknown, kept", "unknown, gone")
_DEEPEST = 5


@dataclass(frozen=True, slots=True)
class Weather:
    """Chances for each call or each second. All 0: the calm in which everything must come to its end."""

    errors: float = 0.0
    """That a call of the store fails."""
    deaf: float = 0.0
    """That a node does not hear a ring."""
    latency: float = 0.001
    """What a call of the store takes on average, there and back."""
    stalls: float = 0.0
    """That one call takes longer than a lease, there or back, while all else goes on."""
    crash_at_commit: float = 0.0
    pause_at_commit: float = 0.0
    """That a node stands still past its lease between a commit and its hearing of it, or just before one."""
    crashes: float = 0.0
    pauses: float = 0.0
    blocks: float = 0.0
    """That the loop of a node stands still, while its threads go on."""
    stops: float = 0.0
    """That a node leaves in order."""
    steps: float = 0.0
    """That the clock of the host is set."""
    skew: float = 0.0
    """How far the clocks of nodes are off."""


CALM = Weather()


def foul(dice: Random) -> Weather:
    """The weather of one seed."""
    some = lambda most: dice.choice((0.0, 0.0, 0.3, 1.0)) * most  # noqa: E731
    return Weather(
        errors=some(0.08),
        deaf=some(0.5),
        latency=dice.choice((0.0, 0.001, 0.02, 0.2)),
        stalls=some(0.02),
        crash_at_commit=some(0.01),
        pause_at_commit=some(0.02),
        crashes=some(0.25),
        pauses=some(0.2),
        blocks=some(0.15),
        stops=some(0.15),
        steps=some(0.1),
        skew=some(30.0),
    )


class Nemesis:
    """Draws what befalls each call of the store, and counts it."""

    def __init__(self, dice: Random, weather: Weather) -> None:
        self._dice = dice
        self.weather = weather
        self.counts: Counter[str] = Counter()

    def heal(self) -> None:
        self.weather = CALM

    def happens(self, chance: float) -> bool:
        return chance > 0.0 and self._dice.random() < chance

    def latency(self) -> float:
        """What a call takes one way."""
        if self.happens(self.weather.stalls):
            self.counts["stalls"] += 1
            return self._dice.uniform(0.5, 8.0)
        mean = self.weather.latency
        return self._dice.expovariate(1 / mean) if mean else 0.0

    def draw(self) -> Fault | None:
        if not self.happens(self.weather.errors):
            return None
        self.counts["errors"] += 1
        return Fault(self._dice.choice(_KINDS), self._dice.randrange(_DEEPEST))


@dataclass(frozen=True, slots=True)
class Fault:
    """How a call fails; one of a statement at the so-manieth of the transaction, if it has as many."""

    kind: str
    at: int

    def before(self) -> None:
        if self.kind in ("away", "unknown, gone"):
            raise _told(self.kind)

    def around(self, tx: Tx) -> Tx:
        return BreakingTx(tx, self) if self.kind in BROKEN else tx  # type: ignore[return-value]

    def after(self) -> None:
        if self.kind == "unknown, kept":
            raise _told(self.kind)


class BreakingTx:
    """A transaction of which one statement fails as SQLite lets it fail."""

    def __init__(self, tx: Tx, fault: Fault) -> None:
        self._tx = tx
        self._fault = fault
        self._left = fault.at

    @property
    def files(self) -> Any:
        return self._tx.files

    def _reach(self) -> None:
        self._left -= 1
        if self._left < 0:
            code, text = BROKEN[self._fault.kind]
            error = sqlite3.OperationalError(text)
            error.sqlite_errorcode = code
            raise error

    async def one(self, *args: Any, **params: Any) -> Any:
        self._reach()
        return await self._tx.one(*args, **params)

    async def all(self, *args: Any, **params: Any) -> Any:
        self._reach()
        return await self._tx.all(*args, **params)

    async def each(self, *args: Any, **common: Any) -> Any:
        self._reach()
        return await self._tx.each(*args, **common)

    async def count(self, *args: Any) -> Any:
        self._reach()
        return await self._tx.count(*args)

    async def copy(self, *args: Any) -> None:
        self._reach()
        await self._tx.copy(*args)

    def notify(self, topic: str) -> None:
        self._tx.notify(topic)


def _told(kind: str) -> StorageUnavailable:
    if kind == "away":
        return StorageUnavailable("the database is not there", backend="sqlite")
    return OutcomeUnknown("the connection was lost at COMMIT", backend="sqlite")
