"""An open SQLite transaction as operations see it. Its methods block and never suspend."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence

from ..lists import by_run, documents
from ..port import Params, Row, Value
from ..statements import Statement


class SqliteTx:
    """`now` is read once, after the lock was taken, so that one operation has one time."""

    __slots__ = ("_cursor", "_now", "rung")

    def __init__(self, cursor: sqlite3.Cursor, now: int) -> None:
        self._cursor = cursor
        self._now = now
        self.rung: set[str] = set()

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        # All rows are fetched: an unfinished statement would hold its snapshot and block checkpoints.
        params["now"] = self._now
        rows: list[Row] = self._cursor.execute(statement.sqlite, params).fetchall()
        return rows[0] if rows else None

    async def all(self, statement: Statement, /, **params: Value) -> list[Row]:
        params["now"] = self._now
        return self._cursor.execute(statement.sqlite, params).fetchall()

    async def each(self, statement: Statement, rows: Sequence[Params], /, **common: Value) -> list[Row | None]:
        common["now"] = self._now
        text, execute = statement.sqlite, self._cursor.execute
        if statement.sqlite_takes_items:
            pages = [execute(text, {"items": items, **common}).fetchall() for items in documents(rows)]
            return by_run(list(itertools.chain.from_iterable(pages)), rows)
        answers: list[Row | None] = []
        for row in rows:
            cursor = execute(text, {**row, **common})
            found = cursor.fetchall()
            # A statement that returns nothing tells by its count: RETURNING takes 5 µs.
            answers.append(found[0] if found else (cursor.rowcount,) if cursor.rowcount > 0 else None)
        return answers

    async def count(self, statement: Statement, names: tuple[str, ...], rows: Sequence[Row], /) -> int:
        # Bound by position in one call: 21 µs for a row of a job, where one call for each with names took 39.
        now = self._now
        return self._cursor.executemany(statement.sqlite_numbered(names), [(*row, now) for row in rows]).rowcount

    async def copy(self, statement: Statement, rows: Sequence[Row], /) -> None:
        self._cursor.executemany(statement.sqlite, rows)

    def ring(self, topic: str) -> None:
        self.rung.add(topic)
