"""The caller's own connection: operations inside its open transaction, and connections that Holdfast makes for it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

from ...errors import ConfigError, NotInTransaction
from ..port import Files, Op
from ..step import step
from .connect import settle
from .failures import translated
from .files import files_of
from .location import Location
from .tx import SqliteTx

T = TypeVar("T")


class Connection(sqlite3.Connection):
    """A connection with Holdfast's settings, for the thread that made it. It begins its transactions as a writer."""


class BorrowedConnection:
    """Connections that were made for threads, to recognise a thread that would wait for itself."""

    def __init__(self, location: Location, *, durable: bool) -> None:
        self._location = location
        self._files = files_of(location)
        self._durable = durable
        self._made: dict[int, WeakSet[Connection]] = {}

    def make(self) -> Connection:
        uri = self._location.uri if self._location.memory else f"{self._location.uri}?mode=rw"
        with translated():
            connection = sqlite3.connect(uri, uri=True, timeout=5, isolation_level="IMMEDIATE", factory=Connection)
            settle(connection, durable=self._durable)
        self._made.setdefault(threading.get_ident(), WeakSet()).add(connection)
        return connection

    def held_by_this_thread(self, passed: sqlite3.Connection | None = None) -> bool:
        """Return whether this thread has a transaction open on one of its connections, other than the passed one."""
        if not self._made:
            return False
        return any(_in_transaction(one) for one in self._made.get(threading.get_ident(), ()) if one is not passed)

    def any_open(self) -> bool:
        """Return whether any connection made here is open, in whatever thread."""
        return any(_is_open(connection) for made in list(self._made.values()) for connection in list(made))

    def run(
        self,
        connection: sqlite3.Connection,
        op: Op[T],
        now: int,
        check_schema: Callable[[sqlite3.Cursor], None],
    ) -> tuple[T, set[str]]:
        """Run in the caller's transaction, under a savepoint; return the result and the topics to notify afterwards.

        `check_schema` raises where nothing may be written, as seen from that transaction.
        """
        if not connection.in_transaction:
            raise NotInTransaction(
                "the connection has no open transaction; begin one before passing connection=", backend="sqlite"
            )
        cursor = sqlite3.Cursor(connection)
        cursor.row_factory = None
        text, connection.text_factory = connection.text_factory, str
        try:
            with translated():
                self._check_same_database(cursor)
                check_schema(cursor)
                # A checkpoint at the caller's commit would run without the write lock. See checkpoint.py.
                cursor.execute("pragma wal_autocheckpoint=0").fetchall()
                return _guarded(connection, cursor, op, now, self._files)
        finally:
            connection.text_factory = text

    def _check_same_database(self, cursor: sqlite3.Cursor) -> None:
        mine = self._location.path
        if mine is None:
            return  # a database in memory has no name to compare; a wrong one lacks our tables
        # SQLite creates a new file when it is first read; a transaction may be open before that.
        cursor.execute("pragma schema_version").fetchall()
        found = next(row[2] for row in cursor.execute("pragma database_list").fetchall() if row[1] == "main")
        if not found or not os.path.exists(mine) or not os.path.samefile(found, mine):
            raise ConfigError(
                f"the connection is to {found or 'another database'}, this store is {mine}; connect to the store's file"
            )


def _guarded(
    connection: sqlite3.Connection, cursor: sqlite3.Cursor, op: Op[T], now: int, files: Files | None
) -> tuple[T, set[str]]:
    tx = SqliteTx(cursor, now, files)
    cursor.execute("savepoint holdfast")
    try:
        answer = step(op.run(tx))
        cursor.execute("release holdfast")
    except BaseException:
        if connection.in_transaction:
            cursor.execute("rollback to holdfast")
            cursor.execute("release holdfast")
        raise
    return answer, tx.topics


def begin_soon(connection: sqlite3.Connection, patience: float) -> None:
    """Begin as a writer. Raises StorageBusy if the lock is not free within these seconds."""
    # A row factory of the caller's is not asked.
    cursor = sqlite3.Cursor(connection)
    cursor.row_factory = None
    with translated():
        (before,) = cursor.execute("pragma busy_timeout").fetchone()
        cursor.execute(f"pragma busy_timeout={min(before, round(patience * 1000))}").fetchall()
        try:
            cursor.execute("begin immediate")
        finally:
            cursor.execute(f"pragma busy_timeout={before}").fetchall()


def _is_open(connection: Connection) -> bool:
    try:
        _ = connection.in_transaction
    except sqlite3.ProgrammingError:
        return False
    return True


def _in_transaction(connection: Any) -> bool:
    try:
        return bool(connection.in_transaction)
    except sqlite3.ProgrammingError:
        return False  # closed
