"""An operation inside a borrowed psycopg transaction, blocking or async."""

from __future__ import annotations

import asyncio
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8Dumper

from ...clock import Clock
from ..port import Op, Row, Value
from ..postgres.failures import translate
from ..postgres.notify import payloads
from ..postgres.place import SELECT_PLACE, BorrowedPlaces, Place
from ..postgres.runner import reading
from ..postgres.tx import PgAsyncTx, PgTx
from ..postgres.wakeups import CHANNEL
from ..statements import Statement
from ..step import step
from .borrowed import Lasting, not_in_transaction

T = TypeVar("T")

_SAVEPOINT: Final = "savepoint holdfast"
NOTIFY: Final = "select pg_notify(%s, %s)"
SET_LOCK_TIMEOUT: Final = "select set_config('lock_timeout', %s, true)"


class BorrowedTx(Lasting, PgTx):
    """The caller's transaction on a blocking connection."""

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        row = await super().one(statement, **params)
        self.note(statement, row)
        return row


class BorrowedAsyncTx(Lasting, PgAsyncTx):
    """The caller's transaction on an async connection."""

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        row = await super().one(statement, **params)
        self.note(statement, row)
        return row


def run_on_psycopg(
    connection: psycopg.Connection[Any], op: Op[T], clock: Clock | None, places: BorrowedPlaces, *, notify: bool
) -> tuple[T, set[str]]:
    """Return the result, and the topics to notify."""
    _require_transaction(connection)
    # The caller's own cursor class and row factory may be anything.
    cursor = psycopg.Cursor(connection, row_factory=tuple_row)
    cursor.adapters.register_dumper(int, Int8Dumper)
    tx = BorrowedTx(cursor, reading(clock))
    try:
        is_checked = places.is_checked(connection)
        cursor.execute(_savepoint(connection, is_checked), prepare=False)
        try:
            if not is_checked:
                if not cursor.nextset():
                    cursor.execute(SELECT_PLACE, prepare=False)
                found = Place(*(cursor.fetchone() or ()))
                if not places.accept(connection, found):
                    places.require(connection, found)
            answer = step(op.run(tx))
            if tx.lock_timeout is not None:
                cursor.execute(SET_LOCK_TIMEOUT, (tx.lock_timeout,))
            for payload in payloads(tx.topics) if notify else ():
                cursor.execute(NOTIFY, (CHANNEL, payload))
        except Exception:
            _undo(cursor)
            raise
        cursor.execute("release holdfast")
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise translate(error) from error
    return answer, tx.topics


async def arun_on_psycopg(
    connection: psycopg.AsyncConnection[Any], op: Op[T], clock: Clock | None, places: BorrowedPlaces, *, notify: bool
) -> T:
    """The async version of `run_on_psycopg`."""
    _require_transaction(connection)
    cursor = psycopg.AsyncCursor(connection, row_factory=tuple_row)
    cursor.adapters.register_dumper(int, Int8Dumper)
    tx = BorrowedAsyncTx(cursor, reading(clock))
    try:
        is_checked = places.is_checked(connection)
        await cursor.execute(_savepoint(connection, is_checked), prepare=False)
        try:
            if not is_checked:
                if not cursor.nextset():
                    await cursor.execute(SELECT_PLACE, prepare=False)
                found = Place(*(await cursor.fetchone() or ()))
                if not places.accept(connection, found):
                    await asyncio.to_thread(places.require, connection, found)
            answer = await op.run(tx)
            if tx.lock_timeout is not None:
                await cursor.execute(SET_LOCK_TIMEOUT, (tx.lock_timeout,))
            for payload in payloads(tx.topics) if notify else ():
                await cursor.execute(NOTIFY, (CHANNEL, payload))
        except Exception:
            await _aundo(cursor)
            raise
        await cursor.execute("release holdfast")
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise translate(error) from error
    return answer


def _savepoint(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], is_checked: bool) -> LiteralString:
    """Check in the same round trip where an unknown connection writes; a pipeline takes one statement at a time."""
    in_pipeline = connection.pgconn.pipeline_status != PipelineStatus.OFF
    return _SAVEPOINT if is_checked or in_pipeline else f"{_SAVEPOINT}; {SELECT_PLACE}"


def _undo(cursor: psycopg.Cursor[Any]) -> None:
    if not cursor.connection.closed:
        cursor.execute("rollback to holdfast")
        cursor.execute("release holdfast")


async def _aundo(cursor: psycopg.AsyncCursor[Any]) -> None:
    if not cursor.connection.closed:
        await cursor.execute("rollback to holdfast")
        await cursor.execute("release holdfast")


def _require_transaction(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    # Without autocommit the first statement begins one, and the caller's commit() ends it.
    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        raise not_in_transaction("postgres", 'enter "with connection.transaction():"')
