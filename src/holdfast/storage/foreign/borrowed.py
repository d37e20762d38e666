"""The driver's connection inside the one that a framework passes, prepared for an operation in an open transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...errors import NotInTransaction
from ..port import Row
from ..statements import Statement, sql
from .kinds import Kind, find_kind

Hook: TypeAlias = Callable[[Callable[[], None]], object]


@dataclass(frozen=True, slots=True)
class BorrowedConnection:
    """A driver's connection, whether its framework has begun, and the framework's own hook for after the commit."""

    driver: Any
    begun: bool = False
    on_commit: Hook | None = None


class Lasting:
    """A transaction that continues after the operation, with the settings that its caller chose."""

    lock_timeout: str | None = None
    """Its earlier value, where the operation has shortened it."""

    def note(self, statement: Statement, row: Row | None) -> None:
        # The first time only: the second finds what the first has set.
        if statement is sql.limit_lock_wait and row and self.lock_timeout is None:
            self.lock_timeout = row[0]


def unwrap(connection: Any, kind: Kind) -> BorrowedConnection:
    """Unwrap a blocking connection."""
    if kind is Kind.SESSION:
        return _from_sqlalchemy(connection.connection())
    if kind is Kind.ENGINE_CONNECTION:
        return _from_sqlalchemy(connection)
    if kind is Kind.DJANGO:
        return _from_django(connection)
    return BorrowedConnection(connection)


async def aunwrap(connection: Any, kind: Kind) -> BorrowedConnection:
    """Unwrap an async connection."""
    if kind is Kind.ASYNC_SESSION:
        return await _from_async_sqlalchemy(await connection.connection())
    if kind is Kind.ASYNC_ENGINE_CONNECTION:
        return await _from_async_sqlalchemy(connection)
    return BorrowedConnection(connection)


def sqlite_connection_of(thing: Any) -> sqlite3.Connection | None:
    """Return the driver's connection of any connection object, if it is SQLite's and in use; begins nothing."""
    if (kind := find_kind(thing)) is None:
        return None
    try:
        driver = _driver_in_use(thing, kind)
    except Exception:  # closed, broken or not connected: whatever its framework raises then
        return None
    driver = getattr(driver, "_conn", driver)  # aiosqlite's
    return driver if isinstance(driver, sqlite3.Connection) else None


def _driver_in_use(thing: Any, kind: Kind) -> Any:
    if kind is Kind.DJANGO:
        return thing.connection
    if kind in (Kind.SESSION, Kind.ASYNC_SESSION):
        session = thing() if hasattr(thing, "registry") else thing
        session = getattr(session, "sync_session", session)
        return session.connection().connection.driver_connection if session.in_transaction() else None
    if kind in (Kind.ENGINE_CONNECTION, Kind.ASYNC_ENGINE_CONNECTION):
        return getattr(thing, "sync_connection", thing).connection.driver_connection
    return thing


def begin_if_only_promised(
    connection: sqlite3.Connection, begun: bool, begin: Callable[[sqlite3.Connection], None]
) -> None:
    """Ensure that a transaction is open on SQLite.

    A framework that considers itself in a transaction may not have sent BEGIN yet: the driver does so at the first
    write. A savepoint before that would be the outermost transaction, and its release would commit.
    """
    if connection.in_transaction:
        return
    if not begun or connection.isolation_level is None:
        raise not_in_transaction("sqlite", 'begin one (connection.execute("begin immediate"))')
    begin(connection)


def not_in_transaction(backend: str, advice: str) -> NotInTransaction:
    message = f"the connection is not in a transaction, so a rollback could not undo this; {advice}, or pass none"
    return NotInTransaction(message, backend=backend)


def _from_sqlalchemy(connection: Any) -> BorrowedConnection:
    # SQLAlchemy begins at the first statement, which this operation is.
    if not connection.in_transaction():
        connection.begin()
    return BorrowedConnection(connection.connection.driver_connection, begun=True)


async def _from_async_sqlalchemy(connection: Any) -> BorrowedConnection:
    if not connection.in_transaction():
        await connection.begin()
    driver = (await connection.get_raw_connection()).driver_connection
    if hasattr(driver, "is_in_transaction") and not driver.is_in_transaction():
        # Over asyncpg the BEGIN is sent with the first statement.
        await connection.exec_driver_sql("select 1")
    return BorrowedConnection(driver, begun=True)


def _from_django(connection: Any) -> BorrowedConnection:
    connection.ensure_connection()
    if connection.in_atomic_block:
        connection.validate_no_broken_transaction()
        return BorrowedConnection(connection.connection, begun=True, on_commit=connection.on_commit)
    if connection.get_autocommit():
        raise not_in_transaction(connection.vendor, 'enter "with transaction.atomic():"')
    return BorrowedConnection(connection.connection, begun=True)
