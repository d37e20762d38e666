"""An open SQLite transaction as operations use it. Its methods block and never suspend."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence

import msgspec

from ..lists import by_run, copied, documents
from ..port import Files, Params, Row, Value
from ..statements import Statement, sqlite_for
from ..unstorable import refuse_nul, refused
from .spread import spread

_encode = msgspec.json.Encoder().encode


class SqliteTx(msgspec.Struct, eq=False):
    """`_now` is read once, after the lock was taken, so that one operation has one time."""

    _cursor: sqlite3.Cursor
    _now: int
    files: Files | None = None
    topics: set[str] = msgspec.field(default_factory=set)

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        # All rows are fetched: an unfinished statement would hold its snapshot and block checkpoints.
        rows = self._rows(statement, params)
        return rows[0] if rows else None

    async def all(self, statement: Statement, /, **params: Value) -> list[Row]:
        return self._rows(statement, params)

    async def each(self, statement: Statement, rows: Sequence[Params], /, **common: Value) -> list[Row | None]:
        # Rows are made by operations from checked values; checking again costs 40 ns a value.
        refuse_nul(common.values())
        common["now"] = self._now
        text = statement.sqlite
        if statement.sqlite_takes_items:
            pages = [self._run(statement, {"items": items, **common}) for items in documents(rows)]
            return by_run(list(itertools.chain.from_iterable(pages)), rows)
        answers: list[Row | None] = []
        for row in rows:
            cursor = self._execute(text, {**row, **common})
            found = cursor.fetchall()
            # A statement that returns nothing reports its count: RETURNING takes 5 µs.
            answers.append(found[0] if found else (cursor.rowcount,) if cursor.rowcount > 0 else None)
            if statement.then and answers[-1]:
                self._execute(statement.then.sqlite, {**row, **common})
        return answers

    async def count(self, statement: Statement, names: tuple[str, ...], rows: Sequence[Row], /) -> int:
        if len(rows) == 1:
            named, values = (*names, "now"), (*rows[0], self._now)
            count = self._cursor.execute(sqlite_for(statement, 1, named, ()), values).rowcount
            if count and statement.then:
                self._cursor.execute(sqlite_for(statement.then, 1, named, ()), values)
            return count
        count = self._store_many(statement, names, rows, {"now": self._now})
        if count and statement.then:
            self._store_many(statement.then, names, rows, {"now": self._now})
        return count

    async def copy(self, statement: Statement, rows: Sequence[Row], /) -> None:
        self._store_many(statement, copied(statement.sqlite)[1], rows, {})

    def notify(self, topic: str) -> None:
        self.topics.add(topic)

    def _rows(self, statement: Statement, params: dict[str, Value]) -> list[Row]:
        refuse_nul(params.values())
        params["now"] = self._now
        return self._run(statement, params)

    def _run(self, statement: Statement, params: dict[str, Value]) -> list[Row]:
        rows = self._execute(statement.sqlite, params).fetchall()
        if rows and statement.then:
            params["ids"] = _encode([row[0] for row in rows]).decode()
            cursor = self._execute(statement.then.sqlite, params)
            # A second statement that reads gives the rows; one that writes leaves those of the first.
            return cursor.fetchall() if cursor.description else rows
        return rows

    def _store_many(
        self, statement: Statement, names: tuple[str, ...], rows: Sequence[Row], common: dict[str, Value]
    ) -> int:
        if not rows:
            return 0
        parts = spread(statement, names, rows, common)
        return sum(self._cursor.execute(text, values).rowcount for text, values in parts)

    def _execute(self, text: str, params: dict[str, Value]) -> sqlite3.Cursor:
        try:
            return self._cursor.execute(text, params)
        except (UnicodeEncodeError, OverflowError) as error:
            raise refused(error) from error
