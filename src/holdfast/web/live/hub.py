"""One refresher for all open pages. What several look at is read and rendered once, and only what changed is sent.

The store is asked at most `refreshes` times a second for all pages together: the more different pages are open, the
less often each is renewed. A viewer who reads slowly misses steps in between, never the newest.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ...clock import SYSTEM_CLOCK
from ..wire.failures import Refused
from ..wire.sse import Said

logger: Final = logging.getLogger("holdfast.web")

Render: TypeAlias = Callable[[], Awaitable[Mapping[str, str]]]

_SECOND: Final = 1.0
"""No page is renewed more often than this."""


@dataclass(eq=False)
class Viewer:
    """One open page: what it has not been sent yet."""

    waiting: dict[str, str] = field(default_factory=dict[str, str])
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, parts: Mapping[str, str]) -> None:
        """Newer parts take the place of those that still wait."""
        self.waiting.update(parts)
        if self.waiting:
            self.news.set()

    async def take(self) -> dict[str, str]:
        await self.news.wait()
        self.news.clear()
        taken, self.waiting = self.waiting, {}
        return taken


@dataclass(eq=False)
class Topic:
    """What some viewers look at."""

    render: Render
    viewers: set[Viewer] = field(default_factory=set[Viewer])
    parts: dict[str, str] = field(default_factory=dict[str, str])
    renewed: float = float("-inf")

    async def renew(self) -> None:
        """Read and render, and offer what changed."""
        self.renewed = SYSTEM_CLOCK.monotonic()
        parts = dict(await self.render())
        changed = {name: html for name, html in parts.items() if self.parts.get(name) != html}
        self.parts = parts
        for viewer in self.viewers:
            viewer.offer(changed)


class Hub:
    """Who looks at what. Its refresher runs while anybody looks."""

    def __init__(self, *, refreshes: float, viewers: int) -> None:
        self._pause = 1.0 / refreshes
        self._most = viewers
        self._topics: dict[Hashable, Topic] = {}
        self._refresher: asyncio.Task[None] | None = None

    @property
    def viewers(self) -> int:
        return sum(len(topic.viewers) for topic in self._topics.values())

    def check_room(self) -> None:
        """Refuse one viewer too many, before anything is sent to it."""
        if self.viewers >= self._most:
            raise Refused(503, "too_many_viewers", "too many pages are open; reload later", {"retry-after": "30"})

    async def watch(self, key: Hashable, render: Render) -> AsyncIterator[Said]:
        """What changes on a page, until its viewer goes. Pages with the same key are rendered as one."""
        viewer = Viewer()
        topic = self._topics.setdefault(key, Topic(render))
        topic.viewers.add(viewer)
        viewer.offer(topic.parts)
        self._wake()
        try:
            while True:
                for name, html in (await viewer.take()).items():
                    yield Said(json.dumps({"id": name, "html": html}), event="part")
        finally:
            topic.viewers.discard(viewer)
            if not topic.viewers:
                self._topics.pop(key, None)

    def _wake(self) -> None:
        if self._refresher is None or self._refresher.done():
            self._refresher = asyncio.create_task(self._refresh(), name="holdfast live pages")

    async def _refresh(self) -> None:
        while self._topics:
            stalest = min(self._topics.values(), key=lambda topic: topic.renewed)
            await asyncio.sleep(max(self._pause, stalest.renewed + _SECOND - SYSTEM_CLOCK.monotonic()))
            try:
                await stalest.renew()
            except Exception as error:
                # The page stays as it was; a store that is away must not end the loop.
                logger.warning("an open page could not be renewed: %s", error)
