"""An operation inside a borrowed asyncpg transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ...clock import Clock
from ..lists import copied, in_order, named, parameters
from ..port import Op, Params, Row, Value
from ..postgres.failures import is_driver_error, translate
from ..postgres.notify import payloads
from ..postgres.place import SELECT_PLACE, BorrowedPlaces, Place
from ..postgres.runner import reading
from ..postgres.wakeups import CHANNEL
from ..statements import Statement
from .borrowed import Lasting, not_in_transaction

T = TypeVar("T")


class AsyncpgTx(Lasting):
    """Uses asyncpg's own placeholders and positional arguments."""

    __slots__ = ("_connection", "_now", "topics")

    def __init__(self, connection: Any, now: int | None) -> None:
        self._connection = connection
        self._now = now
        self.topics: set[str] = set()

    @property
    def files(self) -> None:
        """None: large values are in the database itself."""

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        rows = await self._fetch(statement, params)
        row = rows[0] if rows else None
        self.note(statement, row)
        return row

    async def all(self, statement: Statement, /, **params: Value) -> list[Row]:
        return await self._fetch(statement, params)

    async def each(self, statement: Statement, rows: Sequence[Params], /, **common: Value) -> list[Row | None]:
        if not rows:
            return []
        return in_order(await self._fetch(statement, parameters(statement, rows, common)), len(rows))

    async def count(self, statement: Statement, names: tuple[str, ...], rows: Sequence[Row], /) -> int:
        if not statement.takes_items:
            return sum([len(await self.all(statement, **row)) for row in named(names, rows)])
        answers = await self.each(statement, named(names, rows))
        return len(answers) - answers.count(None)

    async def copy(self, statement: Statement, rows: Sequence[Row], /) -> None:
        table, columns = copied(statement.postgres)
        await self._connection.copy_records_to_table(table, columns=columns, records=rows)

    def notify(self, topic: str) -> None:
        self.topics.add(topic)

    async def _fetch(self, statement: Statement, params: Mapping[str, Any]) -> list[Row]:
        text, names = statement.asyncpg if self._now is None else statement.asyncpg_clocked
        values = {"now": self._now, **params}
        return [tuple(record) for record in await self._connection.fetch(text, *(values[name] for name in names))]


async def run_on_asyncpg(connection: Any, op: Op[T], clock: Clock | None, places: BorrowedPlaces, *, notify: bool) -> T:
    if not connection.is_in_transaction():
        raise not_in_transaction("postgres", 'enter "async with connection.transaction():"')
    tx = AsyncpgTx(connection, reading(clock))
    try:
        # As plain SQL: connection.transaction() refuses a transaction that was begun by plain SQL.
        await connection.execute("savepoint holdfast")
        try:
            if not places.is_checked(connection):
                await _check_place(connection, places)
            answer = await op.run(tx)
            if tx.lock_timeout is not None:
                await connection.execute("select set_config('lock_timeout', $1, true)", tx.lock_timeout)
            for payload in payloads(tx.topics) if notify else ():
                await connection.execute("select pg_notify($1, $2)", CHANNEL, payload)
        except Exception:
            await _undo(connection)
            raise
        await connection.execute("release holdfast")
    except Exception as error:
        if is_driver_error(error):
            raise translate(error) from error
        raise
    return answer


async def _check_place(connection: Any, places: BorrowedPlaces) -> None:
    found = Place(*await connection.fetchrow(SELECT_PLACE))
    if not places.accept(connection, found):
        await asyncio.to_thread(places.require, connection, found)


async def _undo(connection: Any) -> None:
    if not connection.is_closed():
        await connection.execute("rollback to holdfast")
        await connection.execute("release holdfast")
