"""Ends calls that the server leaves unanswered.

A thread that waits for Postgres checks no clock, and TCP notices nothing where the server's processes are frozen
but its kernel still acknowledges. So one thread of each store checks the connections in use. Shortly before its time
is over, a statement is cancelled: a live server answers with an error, and nothing was written. A connection that is
still silent when the time is over is shut down, which ends the wait of its thread at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg

from ...errors import StorageUnavailable
from ..daemons import start_daemon
from .connect import Connection

_TICK: Final = 0.2
_IDLE_SECONDS: Final = 30.0
_ANSWER_TO_CANCEL: Final = 1.0
"""Seconds that a server has to answer a cancel request, at most, and the share of the limit that this is at most."""
_SHARE: Final = 0.2
_SHORTEST_PAUSE: Final = 0.005
_log = logging.getLogger("holdfast.storage")


class Deadlines:
    """Watches connections in use. Its thread starts when it is needed, and ends when nothing was in use for a while.

    `limit` is how many seconds the server may leave a statement unanswered.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self.to_cancel: Final = min(_ANSWER_TO_CANCEL, limit * _SHARE)
        """Seconds before the end of its time at which a statement is cancelled."""
        self.renew()

    def renew(self) -> None:
        """Start empty in a forked child, which has neither the thread nor the connections."""
        self._watched: set[Connection] = set()
        self._running = False
        self._starting = threading.Lock()
        self._closed = threading.Event()

    def watch(self, connection: Connection, until: float) -> None:
        """Break off what runs on this connection when the monotonic clock reaches its `until`, which may be moved."""
        connection.until = until
        self._watched.add(connection)
        # Checked after the connection was added: a thread that ends checks for connections after it said so.
        if not self._running:
            self._start()

    def release(self, connection: Connection) -> None:
        self._watched.discard(connection)

    @contextmanager
    def limited(self, connection: Connection) -> Iterator[None]:
        """Break off what runs here on this connection after the limit."""
        self.watch(connection, time.monotonic() + self._limit)
        try:
            yield
        finally:
            self.release(connection)

    def close(self) -> None:
        """Let the thread end as soon as no connection is in use."""
        self._closed.set()

    def _start(self) -> None:
        with self._starting:
            if self._running:
                return
            # Before it runs: one that finds nothing to do reports at once that it has ended.
            self._running = True
            try:
                start_daemon("holdfast-deadlines", self._run)
            except StorageUnavailable as error:
                self._running = False
                _log.debug("this call has no time limit: %s", error)

    def _run(self) -> None:
        idle_since = time.monotonic()
        pause = _TICK
        while True:
            if self._closed.wait(pause) and self._watched:
                time.sleep(pause)
            now, pause = time.monotonic(), _TICK
            for connection in list(self._watched):
                idle_since = now
                if (left := self._check(connection, now)) is not None:
                    pause = min(pause, max(left, _SHORTEST_PAUSE))
            is_over = self._closed.is_set() or now - idle_since > _IDLE_SECONDS
            if is_over and not self._watched and self._ends():
                return

    def _ends(self) -> bool:
        """End the thread; False where a connection came into use at the last moment and started no other thread."""
        self._running = False
        if not self._watched:
            return True
        with self._starting:
            ends, self._running = self._running, True
            return ends

    def _check(self, connection: Connection, now: float) -> float | None:
        """Break off what is overdue; return the seconds to the next step, or None where there is none."""
        left = connection.until - now
        if not connection.overdue:
            if left > self.to_cancel:
                return left - self.to_cancel
            connection.overdue = True
            if left > 0 and self._start_cancel(connection):
                return left
        if left > 0:
            return left
        connection.hang_up()
        self._watched.discard(connection)
        return None

    def _start_cancel(self, connection: Connection) -> bool:
        try:
            start_daemon("holdfast-cancel", _cancel, connection, self.to_cancel)
        except StorageUnavailable:
            return False
        return True


def _cancel(connection: Connection, seconds: float) -> None:
    with suppress(psycopg.Error):
        connection.cancel_safe(timeout=seconds)
