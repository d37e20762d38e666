"""The one database of the world: a real SQLite in memory, made once and put back to its beginning for each seed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import cache

from holdfast.storage.sqlite import SqliteStore


class WorldClock:
    """The clock of the database. It is that of the world which is alive."""

    def __init__(self) -> None:
        self.wall: Callable[[], int] = lambda: 0

    def now(self) -> int:
        return self.wall()

    def monotonic(self) -> float:
        return self.wall() / 1_000_000


class Sea(SqliteStore):
    """A store that can begin anew."""

    def __init__(self) -> None:
        self._clock = WorldClock()
        super().__init__(":memory:", clock=self._clock, durable=False)
        self.migrate()
        self._empty = sqlite3.connect(":memory:")
        self._session().writer.connection.backup(self._empty)

    def begin(self, wall: Callable[[], int]) -> None:
        self._clock.wall = wall
        self._empty.backup(self._session().writer.connection)


@cache
def sea() -> Sea:
    return Sea()
