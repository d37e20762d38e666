"""Bounds for the connections of `holdfast serve`: their number, and time limits for slow clients.

uvicorn waits for the rest of a request for as long as its connection stays open, and asyncio logs each connection that
finds no file descriptor left. So a few hundred half-sent requests would take the site down, without a token.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import time
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS: Final = 10.0
"""Seconds for the head of a request to arrive, counted from its first byte or from the connection."""
BODY_SECONDS: Final = 60.0
"""Seconds for the body to arrive, counted from the head."""
STALL_SECONDS: Final = 15.0
"""Seconds without a byte of the body while the site waits for it."""
UNREAD_SECONDS: Final = 30.0
"""Seconds a client may read nothing of a response that no longer fits the buffers."""
LINGER_SECONDS: Final = 2.0
"""Seconds a client may keep sending after the site has responded without reading the rest."""
MOST: Final = 1_000
ACCEPTED_AT_ONCE: Final = 64
"""The number of connections accepted before earlier ones are served."""
_FILES: Final = 4_096
_WINDOW: Final = 60.0
_PER_WINDOW: Final = 3

logger: Final = logging.getLogger("holdfast.web")


class Connections:
    """The connections of one server: their number, and the idle ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[BoundedProtocol] = set()
        # Connections without a request in progress, the longest idle first.
        self._idle: dict[BoundedProtocol, None] = {}

    def admit(self, protocol: BoundedProtocol) -> bool:
        """Count a new connection; if there are too many, close the one that has been idle longest."""
        if len(self._open) >= self._most:
            if not self._idle:
                return False
            longest = next(iter(self._idle))
            self.forget(longest)
            longest.transport.abort()
        self._open.add(protocol)
        self.rest(protocol)
        return True

    def rest(self, protocol: BoundedProtocol) -> None:
        if protocol in self._open:
            self._idle[protocol] = None

    def work(self, protocol: BoundedProtocol) -> None:
        self._idle.pop(protocol, None)

    def forget(self, protocol: BoundedProtocol) -> None:
        self._open.discard(protocol)
        self._idle.pop(protocol, None)


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with time limits. Each server uses its own subclass, with `admitted` set."""

    admitted: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._body_since = 0.0
        self._received_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.admitted.admit(self):
            self._arm(HEAD_SECONDS, self._give_up)
        else:
            logger.warning("all %d connections are busy; a new one was refused", self.admitted._most)
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.admitted.forget(self)
        self._disarm()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received_at = self.loop.time()
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        if self.transport.is_closing():
            return
        their = self.conn.their_state
        if their is h11.SEND_BODY:
            self.admitted.work(self)
            if not self._body_since:
                self._body_since = self.loop.time()
                self._arm(STALL_SECONDS, self._check_body)
            return
        if self._body_since or their is not h11.IDLE:
            self._body_since = 0.0
            self._disarm()
        if their is not h11.IDLE:
            self.admitted.work(self)
        elif self._timer is None and self.timeout_keep_alive_task is None:
            # Between two requests uvicorn's own timer runs, until a first byte ends it.
            self._arm(HEAD_SECONDS, self._give_up)

    def on_response_complete(self) -> None:
        if self.conn.their_state is h11.SEND_BODY:
            self._arm(LINGER_SECONDS, self._give_up)
        self.admitted.rest(self)
        super().on_response_complete()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._disarm()
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _arm(self, seconds: float, then: Any) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, then)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.abort()

    def _check_body(self) -> None:
        now = self.loop.time()
        # While reading is paused, the site is the slow side.
        stalls = now - self._received_at >= STALL_SECONDS and not self.flow.read_paused
        if stalls or now - self._body_since >= BODY_SECONDS:
            self._give_up()
        else:
            self._arm(STALL_SECONDS, self._check_body)


def bounded_protocol() -> type[BoundedProtocol]:
    """Return the protocol class of one server, with as many connections as this process can hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    # The other half is for the store, and for connections being accepted or closed.
    most = MOST if soft == resource.RLIM_INFINITY else max(1, min(MOST, soft // 2))
    return type("Protocol", (BoundedProtocol,), {"admitted": Connections(most)})


class Repeats(logging.Filter):
    """Logs a message that clients can cause a few times a minute, then only counts it until the next minute."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key = _caused_from_outside(record)
        if key is None:
            return True
        now = time.monotonic()
        began, count = self._seen.get(key, (now, 0))
        if now - began >= _WINDOW:
            if count > _PER_WINDOW:
                record.msg = f"{record.msg} ({count - _PER_WINDOW} more were not logged)"
            began, count = now, 0
        self._seen[key] = (began, count + 1)
        return count < _PER_WINDOW


def _caused_from_outside(record: logging.LogRecord) -> str | None:
    """Return the key to count the record under; None to log it each time."""
    if record.levelno == logging.WARNING:
        return str(record.msg)
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
        return f"accept {error.errno}"
    return None


def log_sparingly() -> None:
    """Limit what clients can cause uvicorn and asyncio to log."""
    repeats = Repeats()
    for name in ("uvicorn.error", "asyncio", "holdfast.web"):
        logging.getLogger(name).addFilter(repeats)
