"""One request to an ASGI application from a Django view, under ASGI and WSGI.

Under ASGI the application runs on the server's event loop. Under WSGI it runs on a loop in a thread of this process,
which is started with the first request, after any fork.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

_AHEAD: Final = 4
"""Pieces of a response that are made before the client has taken the earlier ones."""


class Exchange:
    """A request, and its response as it comes. It belongs to one event loop."""

    def __init__(self, site: ASGIApp, scope: Scope, body: bytes) -> None:
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self._sent: asyncio.Queue[Message | None] = asyncio.Queue(_AHEAD)
        self._task = asyncio.create_task(self._run(site, scope), name="holdfast dashboard")

    async def next(self) -> Message | None:
        """Return the next message of the response; None at its end."""
        message = await self._sent.get()
        if message is None:
            await self._task
        return message

    async def end(self) -> None:
        """Stop the application: the response is complete, or its client has left."""
        self._gone.set()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self, site: ASGIApp, scope: Scope) -> None:
        try:
            await site(scope, self._receive, self._sent.put)
        finally:
            # Full while the client reads slowly; at a cancel nobody reads any more.
            if not self._gone.is_set():
                await self._sent.put(None)

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}


async def respond(site: ASGIApp, scope: Scope, body: bytes, *, whole: bool = False) -> HttpResponseBase:
    """Return the response of an application on this event loop. A long one is streamed, unless it is read `whole`."""
    start, first, exchange = await _begin(site, scope, body)
    pieces = _pieces(exchange, first)
    if whole or not first.get("more_body"):
        return _headed(HttpResponse(b"".join([piece async for piece in pieces]), status=start["status"]), start)
    return _headed(StreamingHttpResponse(pieces, status=start["status"]), start)


async def respond_from_thread(site: ASGIApp, scope: Scope, body: bytes, loop: BackgroundLoop) -> HttpResponseBase:
    """Return the response of an application on another loop. A long one is read by the thread that sends it."""
    start, first, exchange = await asyncio.wrap_future(loop.run(_begin(site, scope, body)))
    if not first.get("more_body"):
        loop.run(exchange.end())
        return _headed(HttpResponse(first.get("body", b""), status=start["status"]), start)
    return _headed(StreamingHttpResponse(_blocking_pieces(exchange, first, loop), status=start["status"]), start)


async def _begin(site: ASGIApp, scope: Scope, body: bytes) -> tuple[Message, Message, Exchange]:
    exchange = Exchange(site, scope, body)
    try:
        start, first = await exchange.next(), await exchange.next()
    except BaseException:
        await exchange.end()
        raise
    assert start is not None
    assert first is not None
    return start, first, exchange


async def _pieces(exchange: Exchange, first: Message) -> AsyncIterator[bytes]:
    message: Message | None = first
    try:
        while message is not None:
            yield message.get("body", b"")
            message = await exchange.next() if message.get("more_body") else None
    finally:
        await exchange.end()


def _blocking_pieces(exchange: Exchange, first: Message, loop: BackgroundLoop) -> Iterator[bytes]:
    message: Message | None = first
    try:
        while message is not None:
            yield message.get("body", b"")
            message = loop.run(exchange.next()).result() if message.get("more_body") else None
    finally:
        loop.run(exchange.end())


def _headed(response: Any, start: Message) -> Any:
    del response.headers["content-type"]
    for raw_name, raw_value in start["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if name.lower() == "set-cookie":
            response.cookies.update(SimpleCookie(value))
        else:
            response.headers[name] = value
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        # Events must leave at once: GZipMiddleware would hold them back.
        response.headers["content-encoding"] = "identity"
    return response


class BackgroundLoop:
    """An event loop in a daemon thread of this process. A forked child starts its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        os.register_at_fork(after_in_child=self._forget)

    def get(self) -> asyncio.AbstractEventLoop:
        """Return the loop, started at its first use."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="holdfast dashboard", daemon=True).start()
            return self._loop

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine there, and return a future that any thread can wait for."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.get())

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._loop = None
