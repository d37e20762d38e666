"""Read-only connections: a small pool, and threads for long reads of async callers."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final, TypeVar

from ...clock import Clock
from ...errors import StorageUnavailable
from ..port import Files, Op
from ..step import step
from .failures import code, is_busy, translated
from .garbled import as_it_is, is_garbled
from .tx import SqliteTx

T = TypeVar("T")

_IDLE: Final = 8
_THREADS: Final = 4
# A point read takes about 10 µs, less than a switch to a thread and back. So an async caller's read is tried on the
# loop's own thread, and stopped after about half a millisecond's worth of the virtual machine's steps.
_QUICK_STEPS: Final = 20_000


class Readers:
    """Safe from any thread. Each read sees one snapshot."""

    def __init__(self, open_reader: Callable[[], sqlite3.Connection], clock: Clock, files: Files | None = None) -> None:
        self._open = open_reader
        self._files = files
        self._clock = clock
        self._calm: deque[sqlite3.Connection] = deque()
        self._quick: deque[sqlite3.Connection] = deque()
        self._all: set[sqlite3.Connection] = set()
        self._opening = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    def read(self, op: Op[T]) -> T:
        with translated():
            return self._with(self._calm, self._open, op, self._files)

    async def aread(self, op: Op[T]) -> T:
        with translated():
            try:
                return self._with(self._quick, self._open_quick, op, _NOT_HERE)
            except sqlite3.OperationalError as error:
                if code(error) != sqlite3.SQLITE_INTERRUPT and not is_busy(error):
                    raise
        return await self._begin(op)

    def _begin(self, op: Op[T]) -> asyncio.Future[T]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast-reader")
        try:
            return asyncio.get_running_loop().run_in_executor(self._threads, self.read, op)
        except RuntimeError as error:  # closed since the quick try, or no thread available
            raise StorageUnavailable(f"the read could not begin: {error}", backend="sqlite") from error

    def close(self) -> None:
        self._closed = True
        if self._threads is not None:
            self._threads.shutdown()
        self._close_idle()

    def retire(self) -> None:
        """Keep no connection from now on. Waiting reads are served: one may wait until a fork is over."""
        self._closed = True
        self._close_idle()

    def leave(self, while_away: ExitStack, patience: float) -> bool:
        """Close every connection, and open none before `while_away` ends; False where one stays in use."""
        while_away.enter_context(self._opening)
        deadline = time.monotonic() + patience
        self._close_idle()
        while self._all and time.monotonic() < deadline:
            time.sleep(0.001)
            self._close_idle()
        return not self._all

    def _close_idle(self) -> None:
        for pool in (self._calm, self._quick):
            while pool:
                self._close(pool.pop())

    def _close(self, connection: sqlite3.Connection) -> None:
        connection.close()
        self._all.discard(connection)

    def _open_quick(self) -> sqlite3.Connection:
        connection = self._open()
        connection.execute("pragma busy_timeout=0")
        connection.set_progress_handler(_stop, _QUICK_STEPS)
        return connection

    def _with(
        self,
        pool: deque[sqlite3.Connection],
        make: Callable[[], sqlite3.Connection],
        op: Op[T],
        files: Files | None,
    ) -> T:
        try:
            connection = pool.pop()
        except IndexError:
            with self._opening:
                connection = make()
                self._all.add(connection)
        try:
            return _snapshot(connection, op, self._clock.now(), files)
        except sqlite3.OperationalError as error:
            if not is_garbled(error):
                raise
            with as_it_is(connection):
                return _snapshot(connection, op, self._clock.now(), files)
        finally:
            if self._closed or connection.in_transaction or len(pool) >= _IDLE:
                self._close(connection)
            else:
                pool.append(connection)


def _snapshot(connection: sqlite3.Connection, op: Op[T], now: int, files: Files | None) -> T:
    cursor = connection.cursor()
    run: Callable[[], T] = lambda: step(op.run(SqliteTx(cursor, now, files)))  # noqa: E731
    if op.single:
        return run()
    cursor.execute("begin")
    try:
        return run()
    finally:
        if connection.in_transaction:
            cursor.execute("rollback")


class _NotHere:
    """Stands for the files on an event loop's thread: reading a large value there stops the read."""

    def put(self, blob: str, data: bytes) -> None:
        raise AssertionError("a reader does not write")

    def get(self, blob: str) -> bytes | None:
        stopped = sqlite3.OperationalError("interrupted")
        stopped.sqlite_errorcode = sqlite3.SQLITE_INTERRUPT
        raise stopped


_NOT_HERE: Final = _NotHere()


def _stop(*_: Any) -> int:
    return 1
