"""Sends NOTIFY for this process: the first at once, later ones in batches, ever less often under load.

One thread, started by the first topic, with a connection of its own. A program that ends right after its last write
still sends: the interpreter waits for `flush`.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Collection
from typing import Final

import psycopg

from ...errors import StorageError, StorageUnavailable
from ..daemons import start_daemon
from .connect import Address, Connection
from .deadlines import Deadlines

# Seconds between two, at first and at most. With the longest alone, one in three jobs that came every 25 ms was
# noticed up to 10 ms late; with the shortest alone, a busy producer would wake every worker 500 times a second.
_SHORTEST: Final = 0.002
_LONGEST: Final = 0.02
_IDLE_SECONDS: Final = 30.0
_FLUSH_SECONDS: Final = 1.0
# A payload may have 7,999 bytes.
_MAX_PAYLOAD: Final = 7_500
_log = logging.getLogger("holdfast.wakeups")


class NotifyThread:
    def __init__(self, address: Address, channel: str, deadlines: Deadlines) -> None:
        self._address = address
        self._channel = channel
        self._deadlines = deadlines
        self._topics: set[str] = set()
        self._changed = threading.Condition(threading.Lock())
        self._running = False
        self._sending = False
        self._closed = threading.Event()
        self.backend_pid = 0
        _flush_at_exit(self)

    def send(self, topics: Collection[str]) -> None:
        """Send `topics` soon; returns at once."""
        if self._running and self._topics.issuperset(topics):
            return
        with self._changed:
            self._topics.update(topics)
            if not self._running and not self._closed.is_set():
                self._begin()
            self._changed.notify_all()

    def flush(self, timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(self._is_idle, timeout)

    def close(self) -> None:
        self.flush(_FLUSH_SECONDS)
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._running, _FLUSH_SECONDS)

    def _begin(self) -> None:
        try:
            start_daemon("holdfast-notify", self._run)
        except StorageUnavailable as error:
            # The work is committed: its caller must not get an error.
            _log.debug("NOTIFY was not sent, others will find the work when they poll: %s", error)
        else:
            self._running = True

    def _is_idle(self) -> bool:
        return not self._running or not (self._topics or self._sending)

    def _run(self) -> None:
        try:
            self._send_until_quiet()
            while not self._ends():
                self._send_until_quiet()
        except BaseException:
            self._ends(always=True)
            raise

    def _ends(self, *, always: bool = False) -> bool:
        """End the thread; False where topics came while the connection was closed. Later ones start another thread."""
        with self._changed:
            if self._topics and not (always or self._closed.is_set()):
                return False
            self._running = self._sending = False
            self._changed.notify_all()
            return True

    def _send_until_quiet(self) -> None:
        connection: Connection | None = None
        pause = _SHORTEST
        try:
            while topics := self._next():
                connection = self._deliver(connection, topics)
                self._closed.wait(pause)
                pause = min(2 * pause, _LONGEST) if self._topics else _SHORTEST
        finally:
            if connection is not None:
                connection.close()

    def _next(self) -> set[str]:
        """Return the topics to send, or none when the thread should end."""
        with self._changed:
            self._sending = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._topics or self._closed.is_set(), _IDLE_SECONDS)
            topics, self._topics = self._topics, set()
            self._sending = bool(topics)
            return topics

    def _deliver(self, connection: Connection | None, topics: set[str]) -> Connection | None:
        try:
            connection = connection or self._address.connect()
            self.backend_pid = connection.info.backend_pid
            with self._deadlines.limited(connection):
                for payload in payloads(topics):
                    connection.execute("select pg_notify(%s, %s)", (self._channel, payload))
            return connection
        except (psycopg.Error, StorageError) as error:
            _log.debug("NOTIFY was not sent, others will find the work when they poll: %s", error)
            if connection is not None:
                connection.close()
            return None


def payloads(topics: Collection[str]) -> list[str]:
    """Join the topics by newlines, in as few payloads as their size allows."""
    found = [""]
    for topic in sorted(topics):
        longer = f"{found[-1]}\n{topic}" if found[-1] else topic
        if len(longer.encode()) <= _MAX_PAYLOAD:
            found[-1] = longer
        else:
            found.append(topic)
    return [payload for payload in found if payload]


def _flush_at_exit(thread: NotifyThread) -> None:
    reference, process = weakref.ref(thread), os.getpid()

    def flush() -> None:
        # A forked child has neither the thread nor its unsent topics, and the lock may be in any state.
        if (alive := reference()) is not None and os.getpid() == process:
            alive.flush(_FLUSH_SECONDS)

    atexit.register(flush)
    # Only for an object that is collected before the program ends: at exit it would unregister what is about to run.
    weakref.finalize(thread, atexit.unregister, flush).atexit = False
