"""Read what jobs say: `app.stream`, `app.streams`. Each method has an awaiting twin.

A reader listens before its first look, so that nothing falls in between, and holds no connection while it waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from ..context import JobInfo, Stop
from ..errors import BlockingCall, InvalidInput
from ..handle import Job
from ..model.job import Ended, JobRecord
from ..model.stream import MAX_PAGE, Frame, Progress, StreamPage, Stretch, Summary
from ..names import check_name, check_timeout
from ..options import Seconds
from ..storage.ops import insight, streams, tenancy
from ..storage.port import Listener, Op, Store
from ..streams.desk import Desk
from ..streams.inline import InlineOutlet
from ..streams.outlet import Outlet
from ..telemetry import is_run_of, refuse_on_event_loop
from . import watch
from .jobs import first_reason
from .looks import SharedLooks
from .scope import EVERYTHING, Scope
from .tail import Tail

Target: TypeAlias = "str | Job[Any]"

# Frames may have 64 KiB each.
_PAGE: Final = 500


class Streams:
    """The streams of one app's jobs."""

    def __init__(self, store: Callable[[], Store], scope: Scope = EVERYTHING) -> None:
        self._store = store
        self._scope = scope
        self._desk = Desk(store)
        self._looks = SharedLooks()
        self._ends: watch.Watch[Ended] = watch.Watch(
            store, "job", _ended, _there, _existing, lambda job_id: first_reason(job_id, scope)
        )
        self._inline: dict[str, InlineOutlet] = {}

    def read(
        self,
        job: Target,
        *,
        after: str | None = None,
        until: str | None = None,
        limit: int = 1_000,
        best_effort: bool = True,
    ) -> StreamPage:
        """Frames that are there now, in order, from the first or after a cursor, up to the last or to a cursor.

        CursorExpired where best-effort frames behind the cursor are gone; without `best_effort` only the durable ones
        are read.
        """
        tail = _tail(job, after, limit, best_effort, until)
        return tail.take(self._look(tail))

    async def aread(
        self,
        job: Target,
        *,
        after: str | None = None,
        until: str | None = None,
        limit: int = 1_000,
        best_effort: bool = True,
    ) -> StreamPage:
        tail = _tail(job, after, limit, best_effort, until)
        return tail.take(await self._alook(tail))

    def follow(
        self, job: Target, *, after: str | None = None, timeout: Seconds | None = None, best_effort: bool = True
    ) -> Iterator[Frame]:
        """Every frame, those that are there and those that come, until the job has ended: `for frame in …`.

        The iteration also ends after `timeout` seconds without a frame.
        """
        tail, patience = _tail(job, after, _PAGE, best_effort), check_timeout(timeout)
        self._refuse_to_block(tail, patience, "async for frame in app.astream(job)")
        return (frame for page in self._pages(tail, patience) for frame in page.frames)

    def afollow(
        self,
        job: Target,
        *,
        after: str | None = None,
        timeout: Seconds | None = None,
        best_effort: bool = True,
        at_once: int = _PAGE,
    ) -> AsyncIterator[Frame]:
        """The awaiting twin of `follow`: `async for frame in …`. At most `at_once` frames are in memory."""
        return self._frames(_tail(job, after, at_once, best_effort), check_timeout(timeout))

    def tail(
        self, job: Target, *, after: str | None = None, timeout: Seconds = 30, best_effort: bool = True
    ) -> StreamPage:
        """One page: what is there after a cursor, or what comes within so many seconds, or nothing."""
        tail, patience = _tail(job, after, _PAGE, best_effort), check_timeout(timeout)
        self._refuse_to_block(tail, patience, "await app.streams.atail(job)")
        return next(self._pages(tail, patience), tail.nothing())

    async def atail(
        self, job: Target, *, after: str | None = None, timeout: Seconds = 30, best_effort: bool = True
    ) -> StreamPage:
        tail = _tail(job, after, _PAGE, best_effort)
        pages = self._apages(tail, check_timeout(timeout))
        try:
            return await anext(pages, tail.nothing())
        finally:
            await pages.aclose()

    def progress(self, job: Target) -> Progress:
        """How far a job says it is."""
        job_id = _id(job)
        if (kept := self._inline.get(job_id)) is not None:
            return kept.progress
        return self._store().read(self._scope.sees(job_id, _progress(job_id)))

    async def aprogress(self, job: Target) -> Progress:
        job_id = _id(job)
        if (kept := self._inline.get(job_id)) is not None:
            return kept.progress
        return await self._store().aread(self._scope.sees(job_id, _progress(job_id)))

    def summary(self, job: Target) -> Summary:
        """The document that a job keeps about itself; an empty one of version 0 before its first word."""
        job_id = _id(job)
        if (kept := self._inline.get(job_id)) is not None:
            return kept.summary
        return self._store().read(self._scope.sees(job_id, _summary(job_id)))

    async def asummary(self, job: Target) -> Summary:
        job_id = _id(job)
        if (kept := self._inline.get(job_id)) is not None:
            return kept.summary
        return await self._store().aread(self._scope.sees(job_id, _summary(job_id)))

    # -- for the contexts of running jobs

    def outlet(self, info: JobInfo, stop: Stop) -> Outlet | InlineOutlet:
        """Where a run says what it has to say. Of two threads that ask at once both get the same."""
        self._scope.whole("the writing end of a stream")
        with self._desk.lock:
            if stop.outlet is None and info.worker:
                stop.outlet = self._desk.open(info, stop)
            elif stop.outlet is None:
                stop.outlet = self.keep(info)
            found: Outlet | InlineOutlet = stop.outlet
            return found

    def keep(self, info: JobInfo) -> InlineOutlet:
        """The stream of an inline job, in memory."""
        return self._inline.setdefault(info.id, InlineOutlet(info))

    # -- the two colours of reading

    def _refuse_to_block(self, tail: Tail, patience: float | None, instead: str) -> None:
        """Raise BlockingCall in a task, whose slot the reader would hold, and on an event loop."""
        if patience == 0 or tail.job_id in self._inline:
            return
        if is_run_of(self._store()):
            raise BlockingCall(
                "a blocking read of a stream inside a task holds its worker's slot and may never end; use"
                f" {instead} in an async def task, or app.streams.read(job), which reads what is there"
            )
        refuse_on_event_loop("a blocking read of a stream", instead)

    def _pages(self, tail: Tail, patience: float | None) -> Iterator[StreamPage]:
        """Pages with frames in them, and the last one in any case."""
        with self._listening(tail) as listener:
            since, is_slow = time.monotonic(), _once_slow()
            while True:
                looked = time.monotonic()
                page = tail.take(self._look(tail))
                if page.frames or page.closed:
                    yield page
                    since = time.monotonic()
                if tail.may_be_more:
                    continue
                if page.closed or (silence := _silence(tail, since, patience)) is None:
                    return
                if is_slow(since):
                    self._ends.warn(tail.job_id)
                listener.wait(silence)
                if (rest := looked + tail.pause - time.monotonic()) > 0:
                    time.sleep(rest)

    async def _apages(self, tail: Tail, patience: float | None) -> AsyncGenerator[StreamPage, None]:
        with self._listening(tail) as listener:
            since, is_slow = time.monotonic(), _once_slow()
            while True:
                looked = time.monotonic()
                page = tail.take(await self._alook(tail))
                if page.frames or page.closed:
                    yield page
                    since = time.monotonic()
                if tail.may_be_more:
                    continue
                if page.closed or (silence := _silence(tail, since, patience)) is None:
                    return
                if is_slow(since):
                    await self._ends.awarn(tail.job_id)
                await listener.await_ring(silence)
                if (rest := looked + tail.pause - time.monotonic()) > 0:
                    await asyncio.sleep(rest)

    @contextmanager
    def _listening(self, tail: Tail) -> Iterator[Listener]:
        """Before the first look. That the job has ended is heard by one for all readers: jobs end all the time."""
        if tail.job_id in self._inline:
            yield _Deaf()
            return
        listener = self._store().bell.listen([tail.topic])
        forget = self._ends.when_ended(tail.job_id, lambda _: listener.ring())
        try:
            yield listener
        finally:
            forget()
            listener.close()

    async def _frames(self, tail: Tail, patience: float | None) -> AsyncIterator[Frame]:
        pages = self._apages(tail, patience)
        try:
            async for page in pages:
                for frame in page.frames:
                    yield frame
        finally:
            await pages.aclose()

    def _look(self, tail: Tail) -> Stretch:
        if (kept := self._inline.get(tail.job_id)) is not None:
            return kept.read(tail.cursor, tail.limit, best_effort=tail.best_effort, until=tail.until)
        return self._store().read(self._scope.sees(tail.job_id, _read(tail)))

    async def _alook(self, tail: Tail) -> Stretch:
        if (kept := self._inline.get(tail.job_id)) is not None:
            return kept.read(tail.cursor, tail.limit, best_effort=tail.best_effort, until=tail.until)
        store, op = self._store(), self._scope.sees(tail.job_id, _read(tail))
        return await self._looks.look(tail.place, lambda: store.aread(op))


class _Deaf:
    """The ear of those who read what an inline job has said: there is nothing to wait for."""

    def wait(self, timeout: float) -> bool:
        return False

    async def await_ring(self, timeout: float) -> bool:
        return False

    def ring(self) -> None: ...

    def close(self) -> None: ...


def _read(tail: Tail) -> Op[Stretch]:
    job_id, cursor, n, best_effort, until = tail.job_id, tail.cursor, tail.limit, tail.best_effort, tail.until
    return Op(lambda tx: streams.read(tx, job_id, cursor, n, best_effort=best_effort, until=until), single=True)


def _progress(job_id: str) -> Op[Progress]:
    return Op(lambda tx: streams.progress_of(tx, job_id), single=True)


def _summary(job_id: str) -> Op[Summary]:
    return Op(lambda tx: streams.summary_of(tx, job_id), single=True)


def _tail(job: Target, after: str | None, limit: int, best_effort: bool, until: str | None = None) -> Tail:
    if isinstance(limit, bool) or not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit is {limit!r}; use 1 to {MAX_PAGE:,}")
    return Tail(_id(job), after, limit, best_effort=best_effort, until=until)


def _id(job: Target) -> str:
    return job.id if isinstance(job, Job) else check_name("the id", job)


def _silence(tail: Tail, since: float, patience: float | None) -> float | None:
    """How long to wait now; None if it has lasted too long."""
    left = tail.silence if patience is None else since + patience - time.monotonic()
    return min(left, tail.silence) if left > 0 else None


def _once_slow() -> Callable[[float], bool]:
    """Return a function that says once that nothing has come for long since an instant."""
    told = False

    def is_slow(since: float) -> bool:
        nonlocal told
        is_first = not told and time.monotonic() - since >= watch.PATIENCE
        told = told or is_first
        return is_first

    return is_slow


def _ended(job_ids: Sequence[str]) -> Op[list[Ended]]:
    return Op(lambda tx: insight.outcomes_of(tx, job_ids), single=True)


def _there(job_ids: Sequence[str]) -> Op[set[str]]:
    return Op(lambda tx: tenancy.owned_of(tx, None, job_ids), single=True)


def _existing(job_id: str) -> Op[JobRecord]:
    return Op(lambda tx: insight.get_job(tx, job_id), single=True)
