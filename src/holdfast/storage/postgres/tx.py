"""One open transaction over psycopg, blocking or async. The two differ in `await` alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, LiteralString, TypeAlias, TypeVar

import psycopg

from ..lists import in_order, named, parameters
from ..port import Params, Row, Value
from ..statements import Statement

Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]
AsyncCursor: TypeAlias = psycopg.AsyncCursor[tuple[Any, ...]]
C = TypeVar("C")


_LONG: Final = 1_000
"""Rows from which a statement is planned for its own number of them.

A plan that was prepared for short lists on a store without statistics compares each row with each of a long one.
"""


def _prepared(rows: Sequence[Params]) -> bool | None:
    return False if len(rows) > _LONG else None


class _Script(Generic[C]):
    """The common part of both: the text of a statement, the clock, the topics to notify, the last statement sent.

    `single`: it runs without BEGIN, so that a second statement that writes would be a second transaction.
    """

    __slots__ = ("_cursor", "_now", "_single", "last", "topics")

    def __init__(self, cursor: C, now: int | None = None, *, single: bool = False) -> None:
        self._cursor = cursor
        self._now = now
        self._single = single
        self.last: Statement | None = None
        self.topics: set[str] = set()

    @property
    def files(self) -> None:
        """None: large values are in the database itself."""

    def notify(self, topic: str) -> None:
        self.topics.add(topic)

    def _text(self, statement: Statement, params: dict[str, Any]) -> LiteralString:
        """Return the text to send, which is a literal: it comes from the package's own files."""
        if self._single and self.last is not None and not statement.only_reads:
            raise RuntimeError(f"an operation declared single ran a second statement, {statement.name}")
        self.last = statement
        if self._now is None:
            return statement.psycopg  # pyright: ignore[reportReturnType]
        params["now"] = self._now
        return statement.psycopg_clocked  # pyright: ignore[reportReturnType]


class PgTx(_Script[Cursor]):
    """A transaction on a blocking connection. Its methods never suspend, so operations over it can be stepped."""

    __slots__ = ()

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        cursor = self._cursor
        cursor.execute(self._text(statement, params), params)
        return cursor.fetchone() if _has_rows(cursor) else None

    async def all(self, statement: Statement, /, **params: Value) -> list[Row]:
        cursor = self._cursor
        cursor.execute(self._text(statement, params), params)
        return cursor.fetchall() if _has_rows(cursor) else []

    async def each(self, statement: Statement, rows: Sequence[Params], /, **common: Value) -> list[Row | None]:
        if not rows:
            return []
        params = parameters(statement, rows, common)
        self._cursor.execute(self._text(statement, params), params, prepare=_prepared(rows))
        return in_order(self._cursor.fetchall() if _has_rows(self._cursor) else [], len(rows))

    async def count(self, statement: Statement, names: tuple[str, ...], rows: Sequence[Row], /) -> int:
        if not statement.takes_items:
            found = 0
            for row in rows:
                found += len(await self.all(statement, **dict(zip(names, row, strict=True))))
            return found
        answers = await self.each(statement, named(names, rows))
        return len(answers) - answers.count(None)

    async def copy(self, statement: Statement, rows: Sequence[Row], /) -> None:
        with self._cursor.copy(self._text(statement, {})) as stream:
            for row in rows:
                stream.write_row(row)


class PgAsyncTx(_Script[AsyncCursor]):
    """A transaction on an async connection."""

    __slots__ = ()

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        cursor = self._cursor
        await cursor.execute(self._text(statement, params), params)
        return await cursor.fetchone() if _has_rows(cursor) else None

    async def all(self, statement: Statement, /, **params: Value) -> list[Row]:
        cursor = self._cursor
        await cursor.execute(self._text(statement, params), params)
        return await cursor.fetchall() if _has_rows(cursor) else []

    async def each(self, statement: Statement, rows: Sequence[Params], /, **common: Value) -> list[Row | None]:
        if not rows:
            return []
        params = parameters(statement, rows, common)
        await self._cursor.execute(self._text(statement, params), params, prepare=_prepared(rows))
        return in_order(await self._cursor.fetchall() if _has_rows(self._cursor) else [], len(rows))

    async def count(self, statement: Statement, names: tuple[str, ...], rows: Sequence[Row], /) -> int:
        if not statement.takes_items:
            found = 0
            for row in rows:
                found += len(await self.all(statement, **dict(zip(names, row, strict=True))))
            return found
        answers = await self.each(statement, named(names, rows))
        return len(answers) - answers.count(None)

    async def copy(self, statement: Statement, rows: Sequence[Row], /) -> None:
        async with self._cursor.copy(self._text(statement, {})) as stream:
            for row in rows:
                await stream.write_row(row)


def _has_rows(cursor: Cursor | AsyncCursor) -> bool:
    result = cursor.pgresult
    return result is not None and result.nfields > 0
