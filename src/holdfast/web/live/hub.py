"""One refresher for all open pages. What several look at is read and rendered once, and only what changed is sent.

The store is asked at most `refreshes` times a second for all pages together: the more different pages are open, the
less often each is renewed. A viewer who reads slowly misses steps in between, never the newest. How many may look at
once is not decided here: each has a seat, as whoever follows a stream has.
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
"""No page is renewed more often than this."""


@dataclass(eq=False)
class Viewer:
    """One open page: what it has not been sent yet, as it is sent."""

    waiting: dict[str, bytes] = field(default_factory=dict[str, bytes])
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, parts: Mapping[str, bytes]) -> None:
        """Newer parts take the place of those that still wait."""
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
    """What some viewers look at."""

    render: Render
    viewers: set[Viewer] = field(default_factory=set[Viewer])
    parts: dict[str, bytes] = field(default_factory=dict[str, bytes])
    renewed: float = float("-inf")
    failed: bool = False

    async def renew(self) -> None:
        """Read and render, and offer what changed. Each part is encoded once, for all who look."""
        self.renewed = SYSTEM_CLOCK.monotonic()
        parts = {name: _event(name, html) for name, html in (await self.render()).items()}
        changed = {name: event for name, event in parts.items() if self.parts.get(name) != event}
        self.parts = parts
        for viewer in self.viewers:
            viewer.offer(changed)


class Hub:
    """Who looks at what. Its refresher runs while anybody looks."""

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
        """Whether nobody looks, so that the store is left alone."""
        return self._refresher is None or self._refresher.done()

    async def watch(self, key: Hashable, render: Render) -> AsyncIterator[bytes]:
        """What changes on a page, until its viewer goes. Pages with the same key are rendered as one."""
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
            # Chosen after the pause: whoever looked before it may be gone, and a new page has waited longest.
            stalest = min(self._topics.values(), key=lambda topic: topic.renewed, default=None)
            if stalest is None:
                return
            if (rest := stalest.renewed + _SECOND - SYSTEM_CLOCK.monotonic()) > 0:
                await self._rest(rest)
                continue
            await _renew(stalest)

    async def _rest(self, seconds: float) -> None:
        """Until a page is due, or somebody comes or goes."""
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
        # The page stays as it was. A store that is away must not end the loop, nor fill the log while it is.
        level = logging.DEBUG if topic.failed else logging.WARNING
        logger.log(level, "an open page could not be renewed: %s", error)
        topic.failed = True


def _event(name: str, html: str) -> bytes:
    return Said(json.dumps({"id": name, "html": html}), event="part").encode()
