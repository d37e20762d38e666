"""One reader of the event log for all followers: two hundred of them cost the store no more than one.

The newest events are kept in memory for a while. A follower that is further behind reads its own pages until it has
caught up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from ...app import App
from ...model.events import Cursor, Event

_KEPT: Final = 2_000
_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class EventBatch:
    """A batch of events in order, and the position after it."""

    events: list[Event]
    place: str


class EventReader:
    """Reads the log while there are followers. For one event loop."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._recent: deque[tuple[Cursor, Event]] = deque()
        self._begin: Cursor | None = None
        """The position after which all events read so far are in memory."""
        self._failure: Exception | None = None
        self._followers = 0
        self._reader: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def follow(self, after: str | None) -> AsyncIterator[EventBatch]:
        """Yield every event after a cursor, or from now on, without end."""
        self._followers += 1
        try:
            begin = await self._beginning()
            place = begin if after is None else Cursor.parse(after)
            while True:
                begin, news = await self._beginning(), self._news
                if place < begin:
                    events = await self._app.events.aread(str(place), limit=_PAGE)
                    place = Cursor.parse(events[-1].cursor) if events else begin
                else:
                    events = self._behind(place)
                    place = self._recent[-1][0] if events else place
                if events:
                    yield EventBatch(events, str(place))
                else:
                    await news.wait()
        finally:
            self._followers -= 1
            if not self._followers:
                self._rest()

    def _behind(self, place: Cursor) -> list[Event]:
        found: list[Event] = []
        # From the end: most followers have missed one or two, of thousands that are kept.
        for at, event in reversed(self._recent):
            if at <= place:
                break
            found.append(event)
        return found[::-1]

    async def _beginning(self) -> Cursor:
        """Return the position of the oldest event in memory, once it is known."""
        if self._reader is None or self._reader.done():
            self._rest()
            self._reader = asyncio.create_task(self._read(), name="holdfast event log")
        while self._begin is None:
            if self._failure is not None:
                raise self._failure
            await self._news.wait()
        return self._begin

    async def _read(self) -> None:
        try:
            start = await self._app.events.acursor()
            self._begin = Cursor.parse(start)
            self._ring()
            async for event in self._app.events(after=start):
                self._recent.append((Cursor.parse(event.cursor), event))
                if len(self._recent) > _KEPT:
                    self._begin, _ = self._recent.popleft()
                self._ring()
        except Exception as error:
            # Each follower gets the error, and reconnects from its position.
            self._begin, self._failure = None, error
            self._ring()

    def _ring(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _rest(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._reader = self._begin = self._failure = None
        self._recent.clear()


_BY_LOOP: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, WeakKeyDictionary[App, EventReader]]] = WeakKeyDictionary()


def event_reader(app: App) -> EventReader:
    """Return the reader of this app and this event loop."""
    by_app = _BY_LOOP.setdefault(asyncio.get_running_loop(), WeakKeyDictionary())
    found = by_app.get(app)
    if found is None:
        found = by_app[app] = EventReader(app)
    return found
