"""Ends calls that the server leaves unanswered.

A thread that waits for Postgres checks no clock, and TCP notices nothing where the server's processes are frozen
but its kernel still acknowledges. So one thread of each store checks the connections in use. An overdue statement
is cancelled first: a live server answers with an error, and nothing was written. A connection that
stays silent is then shut down, which ends the wait of its thread at once.
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
"""Seconds that a server has to answer a cancel request before the connection is shut down."""
_log = logging.getLogger("holdfast.storage")


class Deadlines:
    """Watches connections in use. Its thread starts when it is needed, and ends when nothing was in use for a while.

    `limit` is how many seconds the server may leave a statement unanswered.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
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
        while True:
            if self._closed.wait(_TICK) and self._watched:
                time.sleep(_TICK)
            now = time.monotonic()
            for connection in list(self._watched):
                idle_since = now
                if connection.until <= now:
                    self._break_off(connection, now)
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

    def _break_off(self, connection: Connection, now: float) -> None:
        if connection.overdue:
            connection.hang_up()
            self._watched.discard(connection)
            return
        connection.overdue = True
        connection.until = now + _ANSWER_TO_CANCEL
        try:
            start_daemon("holdfast-cancel", _cancel, connection)
        except StorageUnavailable:
            connection.hang_up()


def _cancel(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.cancel_safe(timeout=_ANSWER_TO_CANCEL)
