"""Bounds for the connections of `holdfast serve`: their number, and how slowly a client may send and read.

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
"""How long the head of a request may take to arrive, counted from its first byte or from the connection."""
BODY_SECONDS: Final = 60.0
"""The same for the body, counted from its head."""
STALL_SECONDS: Final = 15.0
"""How long no byte of a body may come while the site waits for it."""
UNREAD_SECONDS: Final = 30.0
"""How long a client may take nothing of an answer that no longer fits the buffers."""
LINGER_SECONDS: Final = 2.0
"""How long a client may go on sending what the site has answered without reading it."""
MOST: Final = 1_000
ACCEPTED_AT_ONCE: Final = 64
"""Connections that are accepted before those accepted earlier are looked at."""
_FILES: Final = 4_096
_WINDOW: Final = 60.0
_PER_WINDOW: Final = 3

logger: Final = logging.getLogger("holdfast.web")


class Connections:
    """The connections of one server: how many there are, and which of them wait for a request."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[BoundedProtocol] = set()
        # Those without a request under way, the longest waiting first.
        self._idle: dict[BoundedProtocol, None] = {}

    def admit(self, protocol: BoundedProtocol) -> bool:
        """Count a new connection; where there are too many, the one that has waited longest for a request gives way."""
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
    """uvicorn's HTTP/1.1 with time limits. A subclass of it belongs to each server, with `admitted` set."""

    admitted: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._body_since = 0.0
        self._heard_at = 0.0

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
        self._heard_at = self.loop.time()
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
        # While reading is paused, it is the site that is slow.
        stalls = now - self._heard_at >= STALL_SECONDS and not self.flow.read_paused
        if stalls or now - self._body_since >= BODY_SECONDS:
            self._give_up()
        else:
            self._arm(STALL_SECONDS, self._check_body)


def bounded_protocol() -> type[BoundedProtocol]:
    """The protocol of one server, with as many connections as this process has room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    # The other half is for the store, and for connections that are being accepted or closed.
    most = MOST if soft == resource.RLIM_INFINITY else max(1, min(MOST, soft // 2))
    return type("Protocol", (BoundedProtocol,), {"admitted": Connections(most)})


class Repeats(logging.Filter):
    """Lets a message that anybody can cause pass a few times a minute, then counts it until the next minute."""

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
    """What to count the record under; None: it is logged each time."""
    if record.levelno == logging.WARNING:
        return str(record.msg)
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
        return f"accept {error.errno}"
    return None


def log_sparingly() -> None:
    """Bound what clients can write into the log through uvicorn and asyncio."""
    repeats = Repeats()
    for name in ("uvicorn.error", "asyncio", "holdfast.web"):
        logging.getLogger(name).addFilter(repeats)
