"""The event log as readers follow it: `app.events(after=cursor)`, `app.aevents(…)`.

A reader holds no connection while it waits, and is woken by what others commit. Where the log has nothing new but rows
wait to be moved into it, the reader moves them itself: it depends on no worker.
"""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, Literal

from ..clock import SYSTEM_CLOCK
from ..errors import CursorExpired, InvalidCursor, InvalidInput
from ..model.event import START, Cursor, Event, EventFilter, Page, check_kinds, events_of
from ..names import check_timeout
from ..storage.ops import events as ops
from ..storage.port import Op, Store

_PAGE: Final = 200
"""Rows read at once."""
_MOST: Final = 10_000
# A ring may be lost; what the schema tells by itself rings for its end alone.
_LONGEST_SILENCE: Final = 1.0
# Somebody else moves rows into the log, and rings when that is done.
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
        """Every event from now on, or behind the cursor `after`, or with "start" all that is kept; then what comes.

        `kinds` are whole kinds or their beginnings: "job.failed", "job", "operator". The iteration ends after
        `timeout` seconds without an event; without one it goes on for ever. The feed's `cursor` also counts what the
        filter passed over.
        """
        wanted = self._filter(kinds=kinds, job=job, task=task, queue=queue, flow=flow, tenant=tenant, tag=tag)
        return Feed(self._store(), wanted, self._place(after), check_timeout(timeout))

    def read(self, after: str = "start", *, limit: int = 100, **wanted: Any) -> builtins.list[Event]:
        """Up to `limit` events behind a cursor that are there now; waits for nothing."""
        feed = Feed(self._store(), self._filter(**wanted), self._place(after), 0)
        return _first(feed, _checked(limit))

    async def aread(self, after: str = "start", *, limit: int = 100, **wanted: Any) -> builtins.list[Event]:
        feed = Feed(self._store(), self._filter(**wanted), self._place(after), 0)
        found: list[Event] = []
        async for event in feed:
            found.append(event)
            if len(found) >= _checked(limit):
                break
        return found

    def cursor(self) -> str:
        """The place behind everything that has been committed."""
        store = self._store()
        _move_all(store)
        return str(Cursor(store.read(_NEWEST) + 1, 0))

    async def acursor(self) -> str:
        store = self._store()
        await _amove_all(store)
        return str(Cursor(await store.aread(_NEWEST) + 1, 0))

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
    """An iteration over the log, blocking or awaiting. `cursor` is where it stands."""

    def __init__(self, store: Store, wanted: EventFilter, place: Cursor | None, timeout: float | None) -> None:
        self._store = store
        self._wanted = wanted
        self._timeout = timeout
        self._place = place
        self._ready: deque[Event] = deque()

    @property
    def cursor(self) -> str | None:
        """Pass it back as `after` to go on from here; None before the first look, if it began without one."""
        return None if self._place is None else str(self._place)

    def __iter__(self) -> Iterator[Event]:
        # Listen first: what is committed between the look and the wait rings.
        listener = self._store.bell.listen(_TOPICS)
        try:
            if self._place is None:
                _move_all(self._store)
            self._begin(self._store.read(_NEWEST))
            deadline = self._deadline()
            while True:
                page = self._store.read(self._look())
                for event in self._take(page):
                    yield event
                    deadline = self._deadline()
                if page.waits and not page.chunks:
                    if not self._store.write(_RELAY):
                        listener.wait(_ANOTHER_MOVES)
                elif not page.chunks:
                    if (left := _left(deadline)) <= 0:
                        return
                    listener.wait(left)
        finally:
            listener.close()

    async def __aiter__(self) -> AsyncIterator[Event]:
        listener = self._store.bell.listen(_TOPICS)
        try:
            if self._place is None:
                await _amove_all(self._store)
            self._begin(await self._store.aread(_NEWEST))
            deadline = self._deadline()
            while True:
                page = await self._store.aread(self._look())
                for event in self._take(page):
                    yield event
                    deadline = self._deadline()
                if page.waits and not page.chunks:
                    if not await self._store.awrite(_RELAY):
                        await listener.await_ring(_ANOTHER_MOVES)
                elif not page.chunks:
                    if (left := _left(deadline)) <= 0:
                        return
                    await listener.await_ring(left)
        finally:
            listener.close()

    def _begin(self, newest: int) -> None:
        end = Cursor(newest + 1, 0)
        if self._place is not None and self._place > end:
            # A store that was put back from a backup would number other events up to there, and none would be told.
            raise InvalidCursor(
                f"{self._place} is behind the end of the event log, {end}: another store gave it out, or this one was "
                "put back; go on from 'start', or from app.events.cursor()"
            )
        self._place = self._place or end

    def _look(self) -> Op[Page]:
        assert self._place is not None
        # The row in which it stands is read again: it may be read in part.
        after = self._place.seq - 1
        return Op(lambda tx: ops.read(tx, after, _PAGE))

    def _take(self, page: Page) -> Iterator[Event]:
        assert self._place is not None
        if self._place.seq and self._place.seq <= page.pruned_to:
            oldest = str(Cursor(page.pruned_to + 1, 0))
            raise CursorExpired(
                f"events behind {self._place} were removed; go on from {oldest}, or from 'start'", oldest
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


def _move_all(store: Store) -> None:
    while store.read(_WAITS):
        if not store.write(_RELAY):
            break


async def _amove_all(store: Store) -> None:
    while await store.aread(_WAITS):
        if not await store.awrite(_RELAY):
            break


def _first(feed: Feed, limit: int) -> list[Event]:
    found: list[Event] = []
    for event in feed:
        found.append(event)
        if len(found) >= limit:
            break
    return found


def _checked(limit: int) -> int:
    if not 1 <= limit <= _MOST:
        raise InvalidInput(f"limit is {limit}; use 1 to {_MOST:,}")
    return limit
