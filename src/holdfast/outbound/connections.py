"""The connections of one event loop: a request uses an idle one or opens a new one.

The library's own pool checks every connection at the beginning and end of each request. With 32 of them that was a
third of a request's time, with 128 two thirds. Here it is a pop and an append.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import TypeAlias

import httpcore2

Place: TypeAlias = tuple[bytes, bytes, int | None]
"""Scheme, host and port."""


class Connections:
    """At most `most` at once, of which `kept` may be idle, each for `seconds`. Only its loop's tasks call it."""

    def __init__(
        self, network: httpcore2.AsyncNetworkBackend, trust: ssl.SSLContext, *, most: int, kept: int, seconds: float
    ) -> None:
        self._network = network
        self._trust = trust
        self._kept = kept
        self._seconds = seconds
        self._room = asyncio.Semaphore(most)
        # In the order in which they became idle; so the first of all is also the first of its origin.
        self._resting: dict[httpcore2.AsyncHTTPConnection, Place] = {}
        self._places: dict[Place, deque[httpcore2.AsyncHTTPConnection]] = {}

    async def send(self, request: httpcore2.Request) -> tuple[httpcore2.AsyncHTTPConnection, httpcore2.Response]:
        """Send a request, and read the head of its answer. The caller reads the rest and gives the connection back."""
        await self._room.acquire()
        try:
            connection = await self._take(request.url)
            return connection, await connection.handle_async_request(request)
        except BaseException:
            # Any connection that was opened for it is closed by then.
            self._room.release()
            raise

    async def give(self, connection: httpcore2.AsyncHTTPConnection, url: httpcore2.URL) -> None:
        """Keep a connection whose answer was read completely, and close any other."""
        self._room.release()
        if connection.is_idle():
            place = _place(url)
            self._resting[connection] = place
            self._places.setdefault(place, deque()).append(connection)
        elif not connection.is_closed():
            await connection.aclose()
        await self._tidy()

    async def aclose(self) -> None:
        resting, self._resting, self._places = list(self._resting), {}, {}
        for connection in resting:
            await connection.aclose()

    async def _take(self, url: httpcore2.URL) -> httpcore2.AsyncHTTPConnection:
        place = _place(url)
        while resting := self._places.get(place):
            # The most recently used: its peer is the least likely to have closed it.
            connection = resting.pop()
            self._forget(connection)
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return httpcore2.AsyncHTTPConnection(
            url.origin, ssl_context=self._trust, keepalive_expiry=self._seconds, network_backend=self._network
        )

    async def _tidy(self) -> None:
        """Close those that were idle for too long, and the oldest if there are too many."""
        while self._resting:
            oldest = next(iter(self._resting))
            if len(self._resting) <= self._kept and not oldest.has_expired():
                return
            self._places[self._resting[oldest]].popleft()
            self._forget(oldest)
            await oldest.aclose()

    def _forget(self, connection: httpcore2.AsyncHTTPConnection) -> None:
        place = self._resting.pop(connection)
        if not self._places[place]:
            del self._places[place]


def _place(url: httpcore2.URL) -> Place:
    return url.scheme, url.host, url.port
