"""A few connections, kept open: for blocking callers, and again for each event loop.

No threads of its own. A connection is returned only when it is idle and unbroken, and is checked before it is used
again, so that a server's restart is noticed here instead of in the middle of a write.
"""

from __future__ import annotations

import math
import select
import threading
import time
from typing import Final

from psycopg.pq import TransactionStatus

from ...errors import StorageBusy, StorageUnavailable
from .connect import Address, Connection

_IDLE: Final = TransactionStatus.IDLE


class Pool:
    """Connections, for any thread."""

    def __init__(self, address: Address, size: int, patience: float) -> None:
        self._address = address
        self._size = size
        self._patience = patience
        self._idle: list[Connection] = []
        self._in_use: set[Connection] = set()
        self._fresh: set[Connection] = set()
        self._opening = 0
        self._peak = 0
        self._closed = False
        # Entered by itself: a condition enters it in Python, where an interrupt can leave it locked for ever.
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)

    def take(self, until: float = math.inf) -> Connection:
        """Take a connection, opened if need be, before the monotonic clock reaches `until`."""
        deadline = min(until, time.monotonic() + self._patience)
        while True:
            if (connection := self._reserve(deadline)) is None:
                return self._open(until)
            quiet = False
            try:
                quiet = is_quiet(connection)
            finally:
                # Also where Ctrl-C ended the check.
                if not quiet:
                    self.give(connection, broken=True)
            if quiet:
                return connection

    def give(self, connection: Connection, *, broken: bool = False) -> None:
        """Return a connection to the pool, or close it where it cannot be used again."""
        with self._mutex:
            self._in_use.discard(connection)
            keep = not (broken or self._closed) and connection in self._fresh and is_idle(connection)
            if keep:
                self._idle.append(connection)
            else:
                self._fresh.discard(connection)
            self._changed.notify()
        if not keep:
            connection.close()

    def take_peak(self) -> int:
        """Return the most connections that were in use at once since the last call."""
        with self._mutex:
            peak, self._peak = self._peak, len(self._in_use)
            return peak

    def drop(self) -> None:
        """Close idle connections now, and those in use when they come back: the server is gone or has changed."""
        with self._mutex:
            idle, self._idle = self._idle, []
            self._fresh.clear()
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close idle connections now, and the rest as they come back."""
        with self._mutex:
            self._closed = True
            self._changed.notify_all()
        self.drop()

    def _reserve(self, deadline: float) -> Connection | None:
        """Return an idle connection, or None as permission to open one."""
        with self._mutex:
            while True:
                if self._closed:
                    raise closed_error()
                if self._idle:
                    connection = self._idle.pop()
                    self._in_use.add(connection)
                    self._peak = max(self._peak, len(self._in_use))
                    return connection
                if len(self._in_use) + self._opening < self._size:
                    self._opening += 1
                    return None
                if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    raise exhausted_error(self._size)

    def _time_to_connect(self, until: float) -> float | None:
        if until == math.inf:
            return None
        # libpq tries for two seconds at least, and the caller must not wait beyond its time.
        if (left := until - time.monotonic()) <= min(2.0, self._patience * 0.4):
            raise StorageUnavailable("no connection was free in time; repeat the call", backend="postgres")
        return left

    def _open(self, until: float) -> Connection:
        connection: Connection | None = None
        try:
            connection = self._address.connect(self._time_to_connect(until))
            return connection
        finally:
            with self._mutex:
                self._opening -= 1
                if connection is not None:
                    self._in_use.add(connection)
                    self._fresh.add(connection)
                    self._peak = max(self._peak, len(self._in_use))
                else:
                    self._changed.notify()


def is_idle(connection: Connection) -> bool:
    return connection.pgconn.transaction_status == _IDLE


def is_quiet(connection: Connection) -> bool:
    """Return False where bytes wait on an idle connection: nothing was sent, so the server has ended it."""
    try:
        poll = select.poll()
        poll.register(connection.pgconn.socket, select.POLLIN)
        return not poll.poll(0)
    except OSError:
        return False


def closed_error() -> StorageUnavailable:
    return StorageUnavailable("the store is closed; open a new one", backend="postgres")


def exhausted_error(size: int) -> StorageBusy:
    message = f"all {size} connections of this process stayed in use; repeat the call or raise pool_size"
    return StorageBusy(message, backend="postgres")
