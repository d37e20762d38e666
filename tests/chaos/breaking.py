"""Break one point of a call: the k-th thing that it asks of the database, in one of the ways that databases have.

The break is made under the store's own code, where the driver would raise it, so that the store's handling of errors is
part of what is tried.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from holdfast.storage.port import Store
from holdfast.worker.claiming import outcomes

_UNCOUNTED = ("pragma", "rollback", "savepoint", "release", "select 1 from sqlite_master")


class Killed(BaseException):
    """The process ends here."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong. `done`: after the point has had its effect, and before anybody hears of it."""

    name: str
    strike: Callable[[Any], BaseException]
    """Given the driver's connection, do to it what goes with the error."""
    done: bool = False
    ends_process: bool = False
    ends_connection: bool = False


@dataclass
class Script:
    """Counts the points of a call, and breaks one of them, once."""

    at: int | None = None
    fault: Fault | None = None
    points: list[str] = field(default_factory=list)
    look: Callable[[], object] = lambda: None
    """Called just before the break."""
    saw: object = None
    struck: bool = False

    def reach(self, text: str, connection: Any, go: Callable[[], Any]) -> Any:
        fault = self._next(text)
        if fault is None:
            return go()
        if fault.done:
            go()
        raise fault.strike(connection)

    def _next(self, text: str) -> Fault | None:
        """What breaks the point that is reached now, if it is the one."""
        if text.startswith(_UNCOUNTED):
            return None
        self.points.append(text)
        if self.fault is None or self.struck or len(self.points) - 1 != self.at:
            return None
        self.struck = True
        self.saw = self.look()
        return self.fault


# -- SQLite


def _sqlite_error(code: int, text: str, *, rolls_back: bool = False) -> Callable[[sqlite3.Connection], BaseException]:
    def strike(connection: sqlite3.Connection) -> BaseException:
        if rolls_back and connection.in_transaction:
            connection.rollback()
        error = sqlite3.OperationalError(text)
        error.sqlite_errorcode = code
        return error

    return strike


SQLITE = (
    Fault("busy", _sqlite_error(sqlite3.SQLITE_BUSY, "database is locked")),
    Fault("full", _sqlite_error(sqlite3.SQLITE_FULL, "database or disk is full", rolls_back=True)),
    Fault("full, still in the transaction", _sqlite_error(sqlite3.SQLITE_FULL, "database or disk is full")),
    Fault("i/o error", _sqlite_error(sqlite3.SQLITE_IOERR, "disk I/O error", rolls_back=True)),
    Fault("killed", lambda _: Killed(), ends_process=True),
)
SQLITE_AFTER_COMMIT = (
    Fault("i/o error after the commit", _sqlite_error(sqlite3.SQLITE_IOERR, "disk I/O error"), done=True),
    Fault("killed after the commit", lambda _: Killed(), done=True, ends_process=True),
)


class _Cursor:
    """Stands in for the writer's cursor."""

    def __init__(self, cursor: sqlite3.Cursor, script: Script) -> None:
        self._cursor = cursor
        self._script = script

    def execute(self, text: str, *given: Any) -> Any:
        return self._script.reach(text, self._cursor.connection, lambda: self._cursor.execute(text, *given))

    def executemany(self, text: str, rows: Any) -> Any:
        return self._script.reach(text, self._cursor.connection, lambda: self._cursor.executemany(text, rows))


# -- Postgres


def _raises(kind: type[psycopg.Error]) -> Callable[[Any], BaseException]:
    return lambda _: kind("as the test wants it")


def _end_backend(connection: Any) -> BaseException:
    with psycopg.connect(connection.info.dsn, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
    try:
        connection.execute("select 1")
    except psycopg.Error as error:
        return error
    raise AssertionError("the backend is still there")


POSTGRES = (
    Fault("serialization failure", _raises(psycopg.errors.SerializationFailure)),
    Fault("deadlock", _raises(psycopg.errors.DeadlockDetected)),
    Fault("disk full", _raises(psycopg.errors.DiskFull)),
    Fault("killed backend", _end_backend, ends_connection=True),
)
POSTGRES_AFTER_COMMIT = (Fault("connection lost after the commit", _end_backend, done=True, ends_connection=True),)


def _breaking_cursor(script: Script) -> type[psycopg.Cursor[Any]]:
    class Breaking(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            go = lambda: super(Breaking, self).execute(query, params, **options)  # noqa: E731
            return script.reach(_text(query), self.connection, go)

        def copy(self, statement: Any, *args: Any, **options: Any) -> Any:
            go = lambda: super(Breaking, self).copy(statement, *args, **options)  # noqa: E731
            return script.reach(_text(statement), self.connection, go)

    return Breaking


def _text(query: Any) -> str:
    return query.decode() if isinstance(query, bytes) else str(query)


@contextmanager
def breaking(store: Store, script: Script) -> Iterator[None]:
    """Have everything that the store writes within go through the script; who rests after an error rests briefly."""
    rest, outcomes._PAUSE_AFTER_ERROR = outcomes._PAUSE_AFTER_ERROR, 0.001  # type: ignore[misc]
    try:
        with _breaking_sqlite(store, script) if store.backend == "sqlite" else _breaking_postgres(store, script):
            yield
    finally:
        outcomes._PAUSE_AFTER_ERROR = rest  # type: ignore[misc]


@contextmanager
def _breaking_sqlite(store: Any, script: Script) -> Iterator[None]:
    writer = store._session().writer
    real, writer._cursor = writer._cursor, _Cursor(writer._cursor, script)
    try:
        yield
    finally:
        writer._cursor = real


@contextmanager
def _breaking_postgres(store: Any, script: Script) -> Iterator[None]:
    """Connections for threads now, and those of each event loop that comes."""
    pool, new_lane = store._runner._pool, store._new_lane
    take = pool.take

    def lending(take: Callable[..., Any]) -> Callable[..., Any]:
        def lend(*args: Any) -> Any:
            connection = take(*args)
            connection.cursor_factory = _breaking_cursor(script)
            return connection

        return lend

    def broken_lane(loop: Any) -> Any:
        lane = new_lane(loop)
        lane.pool.take = lending(lane.pool.take)
        return lane

    pool.take, store._new_lane = lending(take), broken_lane
    try:
        yield
    finally:
        pool.take, store._new_lane = take, new_lane
        for connection in pool._idle:
            connection.cursor_factory = psycopg.Cursor
