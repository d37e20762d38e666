"""The event log as readers follow it: `app.events(after=cursor)`, `app.aevents(…)`.

A reader holds no connection while it waits, and is woken by commits. If the log has nothing new but rows wait to be
moved into it, the reader moves them itself: it depends on no worker.
"""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any, Final, Literal

from ..clock import SYSTEM_CLOCK
from ..errors import CursorExpired, InvalidCursor, InvalidInput
from ..model.events import START, Cursor, Event, EventFilter, Page, check_kinds, events_of
from ..names import check_timeout
from ..storage.ops import events as ops
from ..storage.port import Op, Store
from .calls import composed
from .lines import AwaitingLine, BlockingLine, Line, each

_PAGE: Final = 200
"""Rows read at once."""
_MOST: Final = 10_000
# A wake-up may be lost; events that triggers log cause one only at the end of a job.
_LONGEST_SILENCE: Final = 1.0
# Another process is moving rows into the log, and notifies when that is done.
_ANOTHER_MOVES: Final = 0.02
_TOPICS: Final = (ops.TOPIC, "finished")
_WAITS: Final = Op(ops.waits, single=True)
_NEWEST: Final = Op(ops.newest, single=True)
_RELAY: Final = Op(ops.relay)


class Events:
    """The log of one app. Call it to follow; `read` takes one page."""

    def __init__(self, store: Callable[[], Store], tenant: str | None = None) -> None:
        self._store = store
        self._tenant = tenant

    def __call__(
        self,
        after: str | Literal["start"] | None = None,
        *,
        kinds: str | tuple[str, ...] | builtins.list[str] | None = None,
        job: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        flow: str | None = None,
        tenant: str | None = None,
        tag: str | None = None,
        timeout: float | None = None,
    ) -> Feed:
        """Follow events: from now on, after the cursor `after`, or with "start" from the oldest stored event.

        `kinds` are whole kinds or their prefixes: "job.failed", "job", "operator". The iteration ends after `timeout`
        seconds without an event; without a timeout it never ends. The feed's `cursor` also moves past events that the
        filter skipped.
        """
        wanted = self._filter(kinds=kinds, job=job, task=task, queue=queue, flow=flow, tenant=tenant, tag=tag)
        return Feed(self._store(), wanted, self._place(after), check_timeout(timeout))

    @composed
    async def read(
        self, line: Line, /, after: str = "start", *, limit: int = 100, **wanted: Any
    ) -> builtins.list[Event]:
        """Return up to `limit` stored events after a cursor, without waiting."""
        if not 1 <= limit <= _MOST:
            raise InvalidInput(f"limit is {limit}; use 1 to {_MOST:,}")
        feed = Feed(line.store, self._filter(**wanted), self._place(after), 0)
        found: builtins.list[Event] = []
        async with aclosing(feed.on(line)) as events:
            async for event in events:
                found.append(event)
                if len(found) >= limit:
                    break
        return found

    aread = read.awaiting

    @composed
    async def cursor(self, line: Line) -> str:
        """Return the position after everything that has been committed."""
        await _move_all(line)
        return str(Cursor(await line.read(_NEWEST) + 1, 0))

    acursor = cursor.awaiting

    def _place(self, after: str | None) -> Cursor | None:
        if after is None:
            return None
        return START if after == "start" else Cursor.parse(after)

    def _filter(self, kinds: Any = None, tenant: str | None = None, **fields: Any) -> EventFilter:
        if self._tenant is not None:
            if tenant not in (None, self._tenant):
                raise InvalidInput("this view is one tenant's; leave `tenant` out")
            tenant = self._tenant
        try:
            return EventFilter(kinds=check_kinds(kinds), tenant=tenant, **fields)
        except TypeError as wrong:
            raise InvalidInput(f"events are filtered by {', '.join(EventFilter.__dataclass_fields__)}") from wrong


class Feed:
    """An iteration over the log, blocking or async. `cursor` is its position."""

    def __init__(self, store: Store, wanted: EventFilter, place: Cursor | None, timeout: float | None) -> None:
        self._store = store
        self._wanted = wanted
        self._timeout = timeout
        self._place = place
        self._ready: deque[Event] = deque()

    @property
    def cursor(self) -> str | None:
        """Pass it back as `after` to continue from here; None before the first read, if it began without one."""
        return None if self._place is None else str(self._place)

    def __iter__(self) -> Iterator[Event]:
        return each(self.on(BlockingLine(lambda: self._store)))

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        return self.on(AwaitingLine(lambda: self._store))

    async def on(self, line: Line) -> AsyncGenerator[Event, None]:
        """Follow the log on a line to the store."""
        # Listen first: a commit between the read and the wait causes a wake-up.
        listener = self._store.wakeups.listen(_TOPICS)
        try:
            if self._place is None:
                await _move_all(line)
            self._begin(await line.read(_NEWEST))
            deadline = self._deadline()
            while True:
                page = await line.read(self._look())
                for event in self._take(page):
                    yield event
                    deadline = self._deadline()
                if page.waits and not page.chunks:
                    if not await line.write(_RELAY):
                        await line.wait_for_notice(listener, _ANOTHER_MOVES)
                elif not page.chunks:
                    if (left := _left(deadline)) <= 0:
                        return
                    await line.wait_for_notice(listener, left)
        finally:
            listener.close()

    def _begin(self, newest: int) -> None:
        end = Cursor(newest + 1, 0)
        if self._place is not None and self._place > end:
            # A restored store would number other events up to there, and the reader would miss them.
            raise InvalidCursor(
                f"{self._place} is behind the end of the event log, {end}: another store gave it out, or this one was "
                "put back; continue from 'start', or from app.events.cursor()"
            )
        self._place = self._place or end

    def _look(self) -> Op[Page]:
        assert self._place is not None
        # The row of the position is read again: it may have been read in part.
        after = self._place.seq - 1
        return Op(lambda tx: ops.read(tx, after, _PAGE))

    def _take(self, page: Page) -> Iterator[Event]:
        assert self._place is not None
        if self._place.seq and self._place.seq <= page.pruned_to:
            oldest = str(Cursor(page.pruned_to + 1, 0))
            raise CursorExpired(
                f"events behind {self._place} were removed; continue from {oldest}, or from 'start'", oldest
            )
        for chunk in page.chunks:
            begin = self._place.read if chunk.seq == self._place.seq else 0
            for self._place, event in events_of(chunk, begin):
                if self._wanted.wants(event):
                    yield event
            self._place = Cursor(chunk.seq + 1, 0)

    def _deadline(self) -> float | None:
        return None if self._timeout is None else SYSTEM_CLOCK.monotonic() + self._timeout


def _left(deadline: float | None) -> float:
    return _LONGEST_SILENCE if deadline is None else min(_LONGEST_SILENCE, deadline - SYSTEM_CLOCK.monotonic())


async def _move_all(line: Line) -> None:
    while await line.read(_WAITS):
        if not await line.write(_RELAY):
            break
