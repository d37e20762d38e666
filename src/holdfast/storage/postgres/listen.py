"""Receives NOTIFY for this process: one connection in one thread, started by the first listener."""

from __future__ import annotations

import logging
import os
import random
import select
import threading
from collections.abc import Callable
from typing import Final

import psycopg
from psycopg import sql

from ...errors import StorageError, StorageUnavailable
from ..daemons import start_daemon
from .connect import Address, Connection
from .deadlines import Deadlines

_CHECK_SECONDS: Final = 30.0
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
_log = logging.getLogger("holdfast.wakeups")


class ListenThread:
    """Calls `on_notify(payload, sender's backend pid)`, or `on_notify(None, 0)` when one may have been missed."""

    def __init__(
        self,
        address: Address,
        channel: str,
        on_notify: Callable[[str | None, int], None],
        deadlines: Deadlines,
    ) -> None:
        self._address = address
        self._channel = channel
        self._on_notify = on_notify
        self._deadlines = deadlines
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._wake: tuple[int, int] | None = None
        self._rest = 0.0

    def relax(self, seconds: float) -> None:
        """Check the connection, and connect again after it broke, no more often than this; TCP notices a dead peer."""
        self._rest = seconds

    def ensure_running(self) -> None:
        with self._mutex:
            if self._thread is None and not self._closed.is_set():
                self._wake = self._wake or os.pipe()
                self._begin(self._wake[0])

    def close(self) -> None:
        with self._mutex:
            self._closed.set()
            if self._wake is None:
                return
            os.write(self._wake[1], b"x")
            if self._thread is not None:
                self._thread.join(5.0)
            for end in self._wake:
                os.close(end)
            self._wake = None

    def _begin(self, wake: int) -> None:
        try:
            self._thread = start_daemon("holdfast-listen", self._run, wake)
        except StorageUnavailable as error:
            _log.warning("wake-ups of other processes are found by polling alone for now: %s", error)

    def _run(self, wake: int) -> None:
        pause = _FIRST_PAUSE
        while not self._closed.is_set():
            try:
                with self._address.connect() as connection:
                    with self._deadlines.limited(connection):
                        connection.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
                    pause = _FIRST_PAUSE
                    self._on_notify(None, 0)
                    self._listen(connection, wake)
            except (psycopg.Error, StorageError) as error:
                _log.debug("the LISTEN connection is down; polling continues: %s", error)
                self._closed.wait(max(self._rest, random.uniform(0.5, 1.0) * pause))
                pause = min(_LONGEST_PAUSE, pause * 2)

    def _listen(self, connection: Connection, wake: int) -> None:
        poll = select.poll()
        poll.register(connection.pgconn.socket, select.POLLIN)
        poll.register(wake, select.POLLIN)
        while not self._closed.is_set():
            if not poll.poll(_CHECK_SECONDS * 1000) and not self._rest:
                # A dead peer is silent; only a query finds out.
                with self._deadlines.limited(connection):
                    connection.execute("select 1")
            connection.pgconn.consume_input()
            while notice := connection.pgconn.notifies():
                self._on_notify(notice.extra.decode(), notice.be_pid)
