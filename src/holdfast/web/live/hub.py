"""One refresher for all open pages: shared pages are read and rendered once, and only changes are sent.

The store is queried at most `refreshes` times a second for all pages together: the more different pages are open, the
less often each is refreshed. A slow viewer misses intermediate updates, never the latest. The number of viewers is
limited elsewhere: each takes a seat, like a stream.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ...clock import SYSTEM_CLOCK
from ..wire.sse import Said

logger: Final = logging.getLogger("holdfast.web")

Render: TypeAlias = Callable[[], Awaitable[Mapping[str, str]]]

_SECOND: Final = 1.0
"""The minimum time between two refreshes of a page."""


@dataclass(eq=False)
class Viewer:
    """One open page: the encoded updates not sent yet."""

    waiting: dict[str, bytes] = field(default_factory=dict[str, bytes])
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, parts: Mapping[str, bytes]) -> None:
        """Replace pending updates by newer ones."""
        self.waiting.update(parts)
        if self.waiting:
            self.news.set()

    async def take(self) -> dict[str, bytes]:
        await self.news.wait()
        self.news.clear()
        taken, self.waiting = self.waiting, {}
        return taken


@dataclass(eq=False)
class Topic:
    """A page with its viewers."""

    render: Render
    viewers: set[Viewer] = field(default_factory=set[Viewer])
    parts: dict[str, bytes] = field(default_factory=dict[str, bytes])
    renewed: float = float("-inf")
    failed: bool = False

    async def renew(self) -> None:
        """Read and render the page, and offer the changes. Each part is encoded once for all viewers."""
        self.renewed = SYSTEM_CLOCK.monotonic()
        parts = {name: _event(name, html) for name, html in (await self.render()).items()}
        changed = {name: event for name, event in parts.items() if self.parts.get(name) != event}
        self.parts = parts
        for viewer in self.viewers:
            viewer.offer(changed)


class Hub:
    """The open pages and their viewers. The refresher runs while there are any."""

    def __init__(self, *, refreshes: float) -> None:
        self._pause = 1.0 / refreshes
        self._topics: dict[Hashable, Topic] = {}
        self._refresher: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    @property
    def viewers(self) -> int:
        return sum(len(topic.viewers) for topic in self._topics.values())

    @property
    def is_resting(self) -> bool:
        """True if there are no viewers, so the store is not queried."""
        return self._refresher is None or self._refresher.done()

    async def watch(self, key: Hashable, render: Render) -> AsyncIterator[bytes]:
        """Yield the changes of a page until its viewer leaves. Pages with the same key are rendered once."""
        viewer = Viewer()
        topic = self._topics.setdefault(key, Topic(render))
        topic.viewers.add(viewer)
        viewer.offer(topic.parts)
        self._wake()
        try:
            while True:
                for event in (await viewer.take()).values():
                    yield event
        finally:
            topic.viewers.discard(viewer)
            if not topic.viewers:
                self._topics.pop(key, None)
                self._news.set()

    def _wake(self) -> None:
        self._news.set()
        if self.is_resting:
            self._refresher = asyncio.create_task(self._refresh(), name="holdfast live pages")

    async def _refresh(self) -> None:
        while self._topics:
            await asyncio.sleep(self._pause)
            # Chosen after the pause: viewers may have left, and a new page has waited longest.
            stalest = min(self._topics.values(), key=lambda topic: topic.renewed, default=None)
            if stalest is None:
                return
            if (rest := stalest.renewed + _SECOND - SYSTEM_CLOCK.monotonic()) > 0:
                await self._rest(rest)
                continue
            await _renew(stalest)

    async def _rest(self, seconds: float) -> None:
        """Wait until a page is due, or a viewer comes or goes."""
        self._news.clear()
        try:
            async with asyncio.timeout(max(0.0, seconds - self._pause)):
                await self._news.wait()
        except TimeoutError:
            return


async def _renew(topic: Topic) -> None:
    try:
        await topic.renew()
        topic.failed = False
    except Exception as error:
        # The page stays as it was. An unavailable store must neither end the loop nor fill the log.
        level = logging.DEBUG if topic.failed else logging.WARNING
        logger.log(level, "an open page could not be refreshed: %s", error)
        topic.failed = True


def _event(name: str, html: str) -> bytes:
    return Said(json.dumps({"id": name, "html": html}), event="part").encode()
