"""One operation in one transaction on one pooled connection, run again as a whole where Postgres says so.

A single statement needs no BEGIN: it is sent alone and is its own transaction. Others cost one round trip more for
BEGIN; sending that together with the first statement in psycopg's pipeline mode measured slower on a local socket
(124 µs against 60 µs for begin, select, rollback), so it is not done.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any, Final, Generic, LiteralString, TypeVar

import psycopg

from ...clock import Clock
from ...errors import HoldfastError, StorageBusy, StorageError, StorageUnavailable
from ..port import Op
from ..step import step
from .connect import Connection
from .failures import spoils_the_pool, translate, translate_commit
from .pool import Pool
from .tx import PgTx

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mode:
    begin: LiteralString
    writes: bool


SILENCE: Final = 5.0
"""Seconds without a word in the middle of a transaction after which the server ends it; an operation's own patience
is that of the server too. Between two statements nobody thinks for long here: such a process is frozen or cut off,
and others wait for its locks. Without this a server waits until TCP gives up: for hours, for a frozen one for ever.
"""
WRITE: Final = Mode("begin", writes=True)
READ: Final = Mode("begin isolation level repeatable read read only", writes=False)


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """What an operation answered, and whom to wake now that it is committed."""

    answer: T
    topics: set[str]


class Runner:
    """Runs operations, on the caller's thread."""

    def __init__(self, pool: Pool, clock: Clock | None, patience: float) -> None:
        self._pool = pool
        self._clock = clock
        self._patience = patience

    def run(self, op: Op[T], mode: Mode) -> Done[T]:
        retry = _Retry(self._patience if op.patience is None else op.patience)
        while True:
            try:
                return self._attempt(op, mode)
            except (StorageBusy, _NeverBegan) as error:
                pause = retry.pause_after(error)
            time.sleep(pause)

    def _attempt(self, op: Op[T], mode: Mode) -> Done[T]:
        connection = self._pool.take()
        broken = True
        try:
            done = _carry_out(connection, op, mode, reading(self._clock))
            broken = False
            return done
        except Exception as error:
            broken = False
            if isinstance(error, StorageError) and spoils_the_pool(error):
                self._pool.drop()
            raise
        finally:
            # Interrupted (Ctrl-C): the connection may be in the middle of anything, so it is not lent again.
            self._pool.give(connection, broken=broken)


def _carry_out(connection: Connection, op: Op[T], mode: Mode, now: int | None) -> Done[T]:
    cursor = connection.cursor()
    if op.single and op.patience is None:
        tx = PgTx(cursor, now, limit=1)
        try:
            return Done(step(op.run(tx)), tx.rung)
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise _single_failure(error, mode) from error
    _begin(cursor, op, mode)
    tx = PgTx(cursor, now)
    try:
        answer = step(op.run(tx))
    except (psycopg.Error, UnicodeEncodeError) as error:
        _roll_back(connection)
        raise translate(error) from error
    except Exception:
        _roll_back(connection)
        raise
    try:
        cursor.execute("commit")
    except psycopg.Error as error:
        raise translate_commit(error) from error
    return Done(answer, tx.rung)


def _begin(cursor: psycopg.Cursor[Any], op: Op[Any], mode: Mode) -> None:
    try:
        cursor.execute(_opening(op, mode), prepare=False)
    except psycopg.Error as error:
        raise _began_badly(error) from error


def _roll_back(connection: Connection) -> None:
    try:
        connection.execute("rollback")
    except psycopg.Error:
        # The server rolls back by itself when the connection ends, which is what happens to it now.
        connection.close()


class _NeverBegan(StorageUnavailable):
    """A pooled connection was dead before anything was sent on it: another try cannot do anything twice."""


def _began_badly(error: psycopg.Error) -> HoldfastError:
    found = translate(error)
    return _NeverBegan(str(found), backend="postgres") if isinstance(found, StorageUnavailable) else found


def _single_failure(error: Exception, mode: Mode) -> HoldfastError:
    return translate_commit(error) if mode.writes else translate(error)


def reading(clock: Clock | None) -> int | None:
    """A test's time, or None for the server's own."""
    return None if clock is None else clock.now()


def _opening(op: Op[Any], mode: Mode) -> bytes:
    """BEGIN, together with what bounds the transaction: without parameters all goes in one message."""
    wait = round(max(0.001, SILENCE if op.patience is None else op.patience) * 1000)
    bounds = f"{mode.begin}; set local idle_in_transaction_session_timeout = {wait}"
    return (bounds if op.patience is None else f"{bounds}; set local lock_timeout = {wait}").encode()


class _Retry:
    """How long to pause before the next try: jittered, growing, inside one deadline."""

    def __init__(self, patience: float) -> None:
        self._deadline = time.monotonic() + patience
        self._tries = 0
        self._redialled = False

    def pause_after(self, error: StorageError) -> float:
        """Seconds to pause, or the error again where no try is left."""
        if isinstance(error, _NeverBegan):
            if self._redialled:
                raise error
            self._redialled = True
            return 0.0
        if time.monotonic() >= self._deadline:
            raise error
        self._tries += 1
        return random.uniform(0.5, 1.0) * min(0.1, 0.001 * float(2 ** min(self._tries, 10)))
