"""One operation in one transaction on one pooled connection, run again as a whole where Postgres says so.

A single statement needs no BEGIN: it is sent alone and is its own transaction. Others cost one round trip more for
BEGIN; sending that together with the first statement in psycopg's pipeline mode measured slower on a local socket
(124 µs against 60 µs for begin, select, rollback), so it is not done.
"""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass
from typing import Any, Final, Generic, LiteralString, TypeAlias, TypeVar

import psycopg

from ...clock import Clock
from ...errors import HoldfastError, OutcomeUnknown, StorageBusy, StorageError, StorageUnavailable
from ..port import ListOp, Op
from ..statements import Statement
from ..step import step
from .connect import Connection
from .deadlines import Deadlines
from .failures import LOCK_TIMEOUT, spoils_the_pool, translate, translate_commit
from .pool import Pool
from .tx import PgTx

T = TypeVar("T")
AnyOp: TypeAlias = Op[T] | ListOp[Any, Any]
"""A list answers with a list of its items' answers."""

_TABLE: Final = re.compile(r"\bholdfast_\w+")


@dataclass(frozen=True, slots=True)
class Mode:
    begin: LiteralString
    writes: bool


SILENCE: Final = 5.0
"""Seconds without a statement in the middle of a transaction after which the server ends it; an operation's own
patience applies to the server too. Operations never pause long between two statements: such a process is frozen or
cut off, and others wait for its locks. Without this a server waits until TCP gives up: for hours, or for ever for a
frozen process.
"""
SLOW: Final = 300.0
"""Seconds that a statement of a slow operation may take, where the store's limit is less."""
WRITE: Final = Mode("begin", writes=True)
READ: Final = Mode("begin isolation level repeatable read read only", writes=False)


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The result of an operation, and the topics to notify now that it is committed."""

    answer: T
    topics: set[str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds that a statement waits for a lock, and that the server may leave it unanswered."""

    patience: float
    limit: float


class Runner:
    """Runs operations, on the caller's thread."""

    def __init__(self, pool: Pool, deadlines: Deadlines, clock: Clock | None, bounds: Bounds) -> None:
        self._pool = pool
        self._deadlines = deadlines
        self._clock = clock
        self._bounds = bounds

    def run(self, op: AnyOp[T], mode: Mode, until: float | None = None) -> Done[T]:
        """Run an operation. `until` is when the server must have answered first, by the monotonic clock."""
        begun, retry = time.monotonic(), None
        bounds = self._bounds_of(op)
        until = begun + bounds.limit if until is None else until
        while True:
            try:
                return self._attempt(op, mode, bounds, until)
            except (StorageBusy, _NeverBegan) as error:
                retry = retry or _Retry(self._last_retry(op, begun + bounds.patience, until))
                pause = retry.pause_after(error)
            time.sleep(pause)
            if op.patience is not None:
                # The worker's own writes may be tried for longer than a caller waits.
                until = time.monotonic() + bounds.limit

    def _last_retry(self, op: AnyOp[Any], patience_ends: float, until: float) -> float:
        """Return when the last retry may begin: a statement that was cancelled for its time has used all of it."""
        return min(patience_ends, until - self._deadlines.to_cancel) if op.patience is None else patience_ends

    def until(self, op: AnyOp[Any]) -> float:
        """Return when the server must have answered a call that begins now."""
        return time.monotonic() + self._bounds_of(op).limit

    def _bounds_of(self, op: AnyOp[Any]) -> Bounds:
        if op.patience is None and not op.slow:
            return self._bounds
        limit = max(SLOW, self._bounds.limit) if op.slow else self._bounds.limit
        return Bounds(self._bounds.patience if op.patience is None else op.patience, limit)

    def _attempt(self, op: AnyOp[T], mode: Mode, bounds: Bounds, until: float) -> Done[T]:
        connection = self._pool.take(until)
        broken = True
        try:
            self._deadlines.watch(connection, until)
            now = None if self._clock is None else self._clock.now()
            done = _carry_out(connection, op, mode, bounds, now)
            broken = connection.overdue
            return done
        except Exception as error:
            broken = connection.overdue
            if isinstance(error, StorageError) and spoils_the_pool(error):
                self._pool.drop()
            raise
        finally:
            self._deadlines.release(connection)
            # Interrupted (Ctrl-C): the connection may be in any state, so it is not used again.
            self._pool.give(connection, broken=broken)


class _LimitedTx(PgTx):
    """A transaction in which each statement has the whole limit: an operation of many may take longer."""

    __slots__ = ("_connection", "_seconds")

    def __init__(self, connection: Connection, cursor: psycopg.Cursor[Any], now: int | None, seconds: float) -> None:
        super().__init__(cursor, now)
        self._connection = connection
        self._seconds = seconds

    def _text(self, statement: Statement, params: dict[str, Any]) -> LiteralString:
        self.begin_statement()
        return super()._text(statement, params)

    def begin_statement(self) -> None:
        if not self._connection.overdue:
            self._connection.until = time.monotonic() + self._seconds


def _carry_out(connection: Connection, op: AnyOp[T], mode: Mode, bounds: Bounds, now: int | None) -> Done[T]:
    cursor = connection.cursor()
    alone = op.patience is None and op.single
    if not alone:
        _begin(connection, cursor, op, mode, bounds)
    tx = PgTx(cursor, now, single=True) if alone else _LimitedTx(connection, cursor, now, bounds.limit)
    try:
        answer: Any = step(op.run(tx, op.items) if isinstance(op, ListOp) else op.run(tx))
    except (psycopg.Error, UnicodeEncodeError) as error:
        if not alone:
            _roll_back(connection)
        found = translate_commit(error) if alone and mode.writes else translate(error)
        raise _explained(found, error, connection, tx.last, bounds) from error
    except Exception:
        if not alone:
            _roll_back(connection)
        raise
    if isinstance(tx, _LimitedTx):
        _commit(connection, cursor, tx, mode, bounds)
    if connection.overdue:
        _refuse_late(mode, tx.last, bounds)
    return Done(answer, tx.topics)


def _commit(connection: Connection, cursor: psycopg.Cursor[Any], tx: _LimitedTx, mode: Mode, bounds: Bounds) -> None:
    tx.begin_statement()
    try:
        cursor.execute("commit")
    except psycopg.Error as error:
        found = translate_commit(error) if mode.writes else translate(error)
        raise _explained(found, error, connection, tx.last, bounds) from error


def _begin(connection: Connection, cursor: psycopg.Cursor[Any], op: AnyOp[Any], mode: Mode, bounds: Bounds) -> None:
    try:
        cursor.execute(_opening(op, mode, bounds), prepare=False)
    except psycopg.Error as error:
        if connection.overdue:
            raise _explained(translate(error), error, connection, None, bounds) from error
        raise _began_badly(error) from error


def _roll_back(connection: Connection) -> None:
    try:
        connection.execute("rollback")
    except psycopg.Error:
        # The server rolls back by itself when the connection ends, as it does now.
        connection.close()


class _NeverBegan(StorageUnavailable):
    """A pooled connection was dead before anything was sent on it: a retry cannot do anything twice."""


def _began_badly(error: psycopg.Error) -> HoldfastError:
    found = translate(error)
    return _NeverBegan(str(found), backend="postgres") if isinstance(found, StorageUnavailable) else found


def reading(clock: Clock | None) -> int | None:
    """Return a test's time, or None for the server's own."""
    return None if clock is None else clock.now()


def _opening(op: AnyOp[Any], mode: Mode, bounds: Bounds) -> bytes:
    """Return BEGIN with the transaction's limits: without parameters all goes in one message."""
    silence = _milliseconds(SILENCE if op.patience is None else op.patience)
    lock = _milliseconds(min(bounds.patience, bounds.limit))
    return (
        f"{mode.begin}; set local idle_in_transaction_session_timeout = {silence}; set local lock_timeout = {lock}"
    ).encode()


def _milliseconds(seconds: float) -> int:
    return round(max(0.001, seconds) * 1000)


def _refuse_late(mode: Mode, last: Statement | None, bounds: Bounds) -> None:
    """Refuse an answer that came after a cancel request: a commit that it met may not have reached the standbys."""
    if mode.writes:
        raise OutcomeUnknown(_unanswered(last, bounds) + _LOOK_FIRST, backend="postgres")


def _explained(
    found: HoldfastError, error: Exception, connection: Connection, last: Statement | None, bounds: Bounds
) -> HoldfastError:
    """Return the error with what was waited for, where that was a lock or an answer."""
    if getattr(error, "sqlstate", None) == LOCK_TIMEOUT:
        waited = min(bounds.patience, bounds.limit)
        return StorageBusy(f"{_named(last)} waited {waited:g} s for a lock; {_FIND_THE_LOCK}", backend="postgres")
    if not connection.overdue:
        return found
    if isinstance(found, StorageBusy):
        message = f"{_named(last)} was cancelled after {bounds.limit:g} s; {_FIND_THE_LOCK}, or raise store_timeout"
        return StorageBusy(message, backend="postgres")
    if isinstance(found, OutcomeUnknown):
        return OutcomeUnknown(_unanswered(last, bounds) + _LOOK_FIRST, backend="postgres")
    if isinstance(found, StorageUnavailable):
        message = f"{_unanswered(last, bounds)}; check that the server runs, and repeat the call"
        return StorageUnavailable(message, backend="postgres")
    return found


_FIND_THE_LOCK: Final = "look in pg_locks for the session that holds the lock, and repeat the call"
_LOOK_FIRST: Final = " and may have been committed; read the state again before repeating the call"


def _unanswered(last: Statement | None, bounds: Bounds) -> str:
    return f"{_named(last)} was not answered for {bounds.limit:g} s"


def _named(statement: Statement | None) -> str:
    """Return a statement's name, with the tables that it uses."""
    if statement is None:
        return "the begin of a transaction"
    tables = dict.fromkeys(_TABLE.findall(statement.postgres))
    return f"the statement {statement.name}" + (f" on {', '.join(tables)}" if tables else "")


class _Retry:
    """The pause before the next retry: jittered, growing, before one deadline on the monotonic clock."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._tries = 0
        self._redialled = False

    def pause_after(self, error: StorageError) -> float:
        """Return the seconds to pause, or raise the error where no retry is left."""
        if isinstance(error, _NeverBegan):
            if self._redialled:
                raise error
            self._redialled = True
            return 0.0
        if time.monotonic() >= self._deadline:
            raise error
        self._tries += 1
        return random.uniform(0.5, 1.0) * min(0.1, 0.001 * float(2 ** min(self._tries, 10)))
