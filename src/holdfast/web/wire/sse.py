"""Server-sent events: a stream of text that a browser resumes by the last id it received.

Each stream takes a seat, loses it when its caller is no longer authenticated, and ends when the client does not read:
no more than one event and the network's buffers are held in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from .dispatch import IDENTITY
from .failures import ErrorAnswer, Refused, error_response, refusal_of
from .seats import SEATS, Seat, Seats

MEDIA: Final = "text/event-stream"
_QUIET: Final = 15.0
_PING: Final = b": quiet\n\n"
_STUCK: Final = 30.0
"""Seconds after which a client that reads nothing is disconnected."""
_FAREWELL: Final = 2.0
BRIEF: Final = "holdfast.brief"
"""The key under which a host whose open responses each occupy a thread asks for short streams, in the request's scope.

They end when there is nothing to send for the moment; the client comes back after a pause.
"""
_FIRST: Final = 2.0
_NEXT: Final = 0.1
_PAUSE: Final = 3_000
_OVER: Final = Refused(401, "unauthenticated", "the token or session is no longer valid")


@dataclass(frozen=True, slots=True)
class Said:
    """One event."""

    data: str
    event: str | None = None
    id: str | None = None

    def encode(self) -> bytes:
        # A line break in an id or a name would begin a field of its own.
        lines = [f"{name}: {value}" for name, value in (("id", self.id), ("event", self.event)) if value is not None]
        assert not any("\n" in line or "\r" in line for line in lines)
        lines += [f"data: {line}" for line in self.data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        return ("\n".join(lines) + "\n\n").encode()


def wants_stream(request: Request) -> bool:
    """Return True if the caller accepts server-sent events, by name."""
    return any(one.partition(";")[0].strip().lower() == MEDIA for one in request.headers.get("accept", "").split(","))


def last_id(request: Request) -> str | None:
    """Return the id of the last event the caller received before it was disconnected."""
    return request.headers.get("last-event-id") or None


Source: TypeAlias = "AsyncIterator[Said | bytes] | AsyncIterator[Said] | AsyncIterator[bytes]"
"""Events, or shared events that are already encoded."""


def stream(source: Source) -> Streaming:
    """A response that lasts as long as its source, with a heartbeat while that is quiet.

    Errors are sent as an event `problem`; the client reconnects with the last id it received.
    """
    return Streaming(source)


class Streaming(StreamingResponse):
    """Return the response; for HEAD, only its headers."""

    def __init__(self, source: Source) -> None:
        super().__init__((), media_type=MEDIA, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seats: Seats = scope[SEATS]
        try:
            seat = seats.take(scope, scope.get(IDENTITY))
        except Refused as full:
            await _close(self._source)
            await error_response(full)(scope, receive, send)
            return
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                await self._speak_while_he_listens(seat, receive, send, brief=bool(scope.get(BRIEF)))
            else:
                await send({"type": "http.response.body", "body": b""})
        finally:
            seats.leave(seat)
            await _close(self._source)

    async def _speak_while_he_listens(self, seat: Seat, receive: Receive, send: Send, *, brief: bool) -> None:
        speaking = asyncio.create_task(self._speak(send, brief=brief))
        others = [asyncio.create_task(_gone(receive)), asyncio.create_task(seat.over.wait())]
        try:
            await asyncio.wait({speaking, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (speaking, *others):
                task.cancel()
            await asyncio.gather(speaking, *others, return_exceptions=True)
        if seat.over.is_set():
            await _say_last(send, _problem(_OVER))

    async def _speak(self, send: Send, *, brief: bool) -> None:
        """Send until the source ends, or the client has read nothing for too long."""
        try:
            async for piece in _alive(self._source, brief=brief):
                async with asyncio.timeout(_STUCK):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except (TimeoutError, OSError):
            return  # too slow, or gone
        except Exception as error:
            await _say_last(send, _problem(refusal_of(error)))


async def _alive(source: Source, *, brief: bool) -> AsyncIterator[bytes]:
    coming = asyncio.ensure_future(anext(source, None))
    patience = _FIRST if brief else _QUIET
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=patience)
            if not done and brief:
                yield f"retry: {_PAUSE}\n".encode() + Said(str(_PAUSE), event="later").encode()
                return
            if not done:
                yield _PING
                continue
            patience = _NEXT if brief else _QUIET
            said = coming.result()
            if said is None:
                return
            yield said if isinstance(said, bytes) else said.encode()
            coming = asyncio.ensure_future(anext(source, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _say_last(send: Send, said: Said) -> None:
    try:
        async with asyncio.timeout(_FAREWELL):
            await send({"type": "http.response.body", "body": said.encode()})
    except (TimeoutError, OSError):
        return


def _problem(refused: Refused) -> Said:
    return Said(msgspec.json.encode(ErrorAnswer(refused.problem)).decode(), event="problem")


async def _close(source: Source) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()
