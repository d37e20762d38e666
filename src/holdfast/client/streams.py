"""Read the streams of jobs: `app.stream`, `app.streams`. Each method has an async version.

A reader listens before its first read, so that nothing is missed in between, and holds no connection while it waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from ..errors import BlockingCall, CursorExpired, InvalidCursor, InvalidInput
from ..model.jobs import Ended, JobRecord
from ..model.streams import (
    END,
    MAX_PAGE,
    START,
    SUPERSEDED,
    TRIMMED,
    Cursor,
    Frame,
    FramePage,
    Progress,
    StreamPage,
    Summary,
)
from ..model.values import instant_of
from ..names import check_name, check_timeout
from ..storage.ops import streams, tenants
from ..storage.ops.jobs import queries
from ..storage.port import Listener, Op, Store
from ..streams.frames import InlineBuffer
from ..streams.writer import FrameBuffer, FrameWriter
from ..tasks.context import JobInfo, Stop
from ..tasks.job import Job
from ..tasks.options import Seconds
from ..telemetry import is_run_of, refuse_in_import, refuse_on_event_loop
from . import watch
from .calls import composed
from .jobs import first_reason
from .lines import AwaitingLine, BlockingLine, Line, each
from .scope import EVERYTHING, Scope

Target: TypeAlias = "str | Job[Any]"

# Frames may have 64 KiB each.
_PAGE: Final = 500

# Seconds. On SQLite any commit of another process is a wake-up: one read in this time is enough for a stream.
_BETWEEN_LOOKS: Final = 0.004
_AFTER_NOTHING: Final = 0.05
# A wake-up may be lost; then a poll finds the frames. In a busy stream the poll comes sooner.
_FIRST_SILENCE: Final = 0.05
_LONGEST_SILENCE: Final = 2.0

_Look: TypeAlias = "Callable[[], Coroutine[Any, Any, FramePage]]"


class Streams:
    """The streams of one app's jobs."""

    def __init__(self, store: Callable[[], Store], scope: Scope = EVERYTHING) -> None:
        self._store = store
        self._scope = scope
        self._desk = FrameWriter(store)
        self._looks = SharedLooks()
        self._ends: watch.Watch[Ended] = watch.Watch(
            store, "job", _ended, _there, _existing, lambda job_id: first_reason(job_id, scope)
        )
        self._inline: dict[str, InlineBuffer] = {}

    @composed
    async def read(
        self,
        line: Line,
        job: Target,
        *,
        after: str | None = None,
        until: str | None = None,
        limit: int = 1_000,
        best_effort: bool = True,
    ) -> StreamPage:
        """Return the stored frames, in order, from the first or after a cursor, up to the last or to a cursor.

        CursorExpired if best-effort frames after the cursor were removed; without `best_effort` only the durable ones
        are read.
        """
        tail = _tail(job, after, limit, best_effort, until)
        return tail.take(await self._look(line, tail))

    aread = read.awaiting

    def follow(
        self, job: Target, *, after: str | None = None, timeout: Seconds | None = None, best_effort: bool = True
    ) -> Iterator[Frame]:
        """Iterate over every frame, stored and new, until the job has ended: `for frame in …`.

        The iteration also ends after `timeout` seconds without a frame.
        """
        tail, patience = _tail(job, after, _PAGE, best_effort), check_timeout(timeout)
        self._refuse_to_block(tail, patience, "async for frame in app.astream(job)")
        return each(self._frames(BlockingLine(self._store), tail, patience))

    def afollow(
        self,
        job: Target,
        *,
        after: str | None = None,
        timeout: Seconds | None = None,
        best_effort: bool = True,
        at_once: int = _PAGE,
    ) -> AsyncIterator[Frame]:
        """The async version of `follow`: `async for frame in …`. At most `at_once` frames are in memory."""
        tail, patience = _tail(job, after, at_once, best_effort), check_timeout(timeout)
        return self._frames(AwaitingLine(self._store), tail, patience)

    @composed
    async def tail(
        self, line: Line, job: Target, *, after: str | None = None, timeout: Seconds = 30, best_effort: bool = True
    ) -> StreamPage:
        """Return one page: the frames after a cursor, or those that come within the wait, or nothing."""
        tail, patience = _tail(job, after, _PAGE, best_effort), check_timeout(timeout)
        if isinstance(line, BlockingLine):
            self._refuse_to_block(tail, patience, "await app.streams.atail(job)")
        pages = self._pages(line, tail, patience)
        try:
            return await anext(pages, tail.nothing())
        finally:
            await pages.aclose()

    atail = tail.awaiting

    @composed
    async def progress(self, line: Line, job: Target) -> Progress:
        """Return the progress that a job has reported."""
        job_id = _id(job)
        if (kept := self._inline.get(job_id)) is not None:
            return kept.progress
        return await line.read(self._scope.sees(job_id, Op(lambda tx: streams.progress_of(tx, job_id), single=True)))

    aprogress = progress.awaiting

    @composed
    async def summary(self, line: Line, job: Target) -> Summary:
        """Return the document that a job keeps about itself; before its first change an empty one of version 0."""
        job_id = _id(job)
        if (kept := self._inline.get(job_id)) is not None:
            return kept.summary
        return await line.read(self._scope.sees(job_id, Op(lambda tx: streams.summary_of(tx, job_id), single=True)))

    asummary = summary.awaiting

    # -- for the contexts of running jobs

    def buffer(self, info: JobInfo, stop: Stop) -> FrameBuffer | InlineBuffer:
        """Return the writing end of a run's stream. Two threads that ask at once get the same one."""
        self._scope.whole("the writing end of a stream")
        with self._desk.lock:
            if stop.buffer is None and info.worker:
                stop.buffer = self._desk.open(info, stop)
            elif stop.buffer is None:
                stop.buffer = self.keep(info)
            found: FrameBuffer | InlineBuffer = stop.buffer
            return found

    def keep(self, info: JobInfo) -> InlineBuffer:
        """Return the stream of an inline job, in memory."""
        return self._inline.setdefault(info.id, InlineBuffer(info))

    def _refuse_to_block(self, tail: Tail, patience: float | None, instead: str) -> None:
        """Raise BlockingCall in a task, whose slot the reader would occupy, and on an event loop."""
        if patience == 0 or tail.job_id in self._inline:
            return
        refuse_in_import("a blocking read of a stream")
        if is_run_of(self._store()):
            raise BlockingCall(
                "a blocking read of a stream inside a task holds its worker's slot and may never end; use"
                f" {instead} in an async def task, or app.streams.read(job), which reads what is there"
            )
        refuse_on_event_loop("a blocking read of a stream", instead)

    async def _pages(self, line: Line, tail: Tail, patience: float | None) -> AsyncGenerator[StreamPage, None]:
        """Yield pages with frames, and the last page in any case."""
        with self._listening(tail) as listener:
            since, is_slow = time.monotonic(), _once_slow()
            while True:
                looked = time.monotonic()
                page = tail.take(await self._look(line, tail))
                if page.frames or page.closed:
                    yield page
                    since = time.monotonic()
                if tail.may_be_more:
                    continue
                if page.closed or (silence := _silence(tail, since, patience)) is None:
                    return
                if is_slow(since):
                    await line.call(self._ends.warn, self._ends.awarn, tail.job_id)
                await line.wait_for_notice(listener, silence)
                if (rest := looked + tail.pause - time.monotonic()) > 0:
                    await line.sleep(rest)

    @contextmanager
    def _listening(self, tail: Tail) -> Iterator[Listener]:
        """Listen, before the first read. One listener for all readers waits for ends of jobs, which are frequent."""
        if tail.job_id in self._inline:
            yield _Deaf()
            return
        listener = self._store().wakeups.listen([tail.topic])
        forget = self._ends.when_ended(tail.job_id, lambda _: listener.notify())
        try:
            yield listener
        finally:
            forget()
            listener.close()

    async def _frames(self, line: Line, tail: Tail, patience: float | None) -> AsyncGenerator[Frame, None]:
        pages = self._pages(line, tail, patience)
        try:
            async for page in pages:
                for frame in page.frames:
                    yield frame
        finally:
            await pages.aclose()

    async def _look(self, line: Line, tail: Tail) -> FramePage:
        if (kept := self._inline.get(tail.job_id)) is not None:
            return kept.read(tail.cursor, tail.limit, best_effort=tail.best_effort, until=tail.until)
        op = self._scope.sees(tail.job_id, _read(tail))
        if isinstance(line, BlockingLine):
            return await line.read(op)
        return await self._looks.look(tail.place, lambda: line.read(op))


class Tail:
    """A reader's position in one stream."""

    def __init__(
        self, job_id: str, after: str | None, limit: int, *, best_effort: bool, until: str | None = None
    ) -> None:
        self.job_id: Final = job_id
        self.limit: Final = limit
        self.best_effort: Final = best_effort
        self.until: Final = END if until is None else Cursor.read(until)
        self.cursor = START if after is None else Cursor.read(after)
        self.may_be_more = False
        """The last page was full: there may be another after it."""
        self._is_new = True
        self._is_resumed = after is not None
        self._empty = 0

    @property
    def topic(self) -> str:
        return f"stream:{self.job_id}"

    @property
    def place(self) -> tuple[object, ...]:
        """The position of a reader: all readers at the same position see the same."""
        return (self.job_id, self.cursor, self.limit, self.best_effort, self.until)

    def take(self, found: FramePage) -> StreamPage:
        """Return the page of what was found, and move the position after it."""
        lost = self._lost(found)
        frames = [frame for frame in found.frames if self._concerns(frame)]
        self.may_be_more = len(found.frames) == self.limit
        if lost:
            frames.insert(0, _trimmed(self.cursor, found, lost))
        if found.frames:
            self.cursor = Cursor.read(found.frames[-1].cursor)
        elif lost:
            self.cursor = Cursor(self.cursor.seq, found.trimmed)
        self._empty = 0 if frames else self._empty + 1
        self._is_new = False
        closed = found.ended and not self.may_be_more and (self.until is END or self.cursor >= found.head)
        return StreamPage(tuple(frames), str(self.cursor), closed)

    def nothing(self) -> StreamPage:
        return StreamPage((), str(self.cursor), False)

    @property
    def pause(self) -> float:
        """Seconds to wait after a read, even if there is a wake-up."""
        return min(_BETWEEN_LOOKS * (1 << min(self._empty, 8)), _AFTER_NOTHING)

    @property
    def silence(self) -> float:
        """Seconds to wait for a wake-up."""
        return min(_FIRST_SILENCE * (1 << min(self._empty, 6)), _LONGEST_SILENCE)

    def _lost(self, found: FramePage) -> int:
        """Count the best-effort frames that it has missed; raise CursorExpired if it began at a cursor."""
        if self._is_new and (self.cursor.seq > found.head.seq or self.cursor.live > found.head.live):
            raise InvalidCursor(
                f"{self.cursor} is behind the end of the stream of job {self.job_id}; read it from the start"
            )
        lost = found.trimmed - self.cursor.live
        if not self.best_effort or lost <= 0 or (self._is_new and not self._is_resumed):
            return 0
        if self._is_new:
            resume = Cursor(self.cursor.seq, found.trimmed)
            raise CursorExpired(
                f"{lost:,} best-effort frames after {self.cursor} are gone; {resume} loses nothing else", str(resume)
            )
        return lost

    def _concerns(self, frame: Frame) -> bool:
        """Return True unless the frame supersedes others and the reader had not reached the first of those."""
        return not frame.control or frame.kind != SUPERSEDED or self.cursor.seq >= frame.data["first"]


def _trimmed(place: Cursor, found: FramePage, lost: int) -> Frame:
    at = found.frames[0] if found.frames else None
    return Frame(
        cursor=str(Cursor(place.seq, found.trimmed)), seq=found.trimmed, kind=TRIMMED, data={"lost": lost},
        attempt=at.attempt if at else 0, step=None, at=at.at if at else instant_of(0),
        best_effort=True, control=True,
    )  # fmt: skip


class SharedLooks:
    """Reads that are about to begin, shared by readers at the same position."""

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[FramePage]] = {}

    async def look(self, place: Hashable, look: _Look) -> FramePage:
        """Join a read that has not begun: one that has may be too old to show what woke this reader."""
        key = (asyncio.get_running_loop(), place)
        task = self._next.get(key)
        if task is None or task.done():
            task = self._next[key] = asyncio.create_task(self._begin(key, look))
        # A reader that is cancelled does not cancel the read of the others.
        return await asyncio.shield(task)

    async def _begin(self, key: Hashable, look: _Look) -> FramePage:
        self._next.pop(key, None)
        return await look()


class _Deaf:
    """The listener for the stream of an inline job: there is nothing to wait for."""

    def wait(self, timeout: float) -> bool:
        return False

    async def await_ring(self, timeout: float) -> bool:
        return False

    def notify(self) -> None: ...

    def close(self) -> None: ...


def _read(tail: Tail) -> Op[FramePage]:
    job_id, cursor, n, best_effort, until = tail.job_id, tail.cursor, tail.limit, tail.best_effort, tail.until
    return Op(lambda tx: streams.read(tx, job_id, cursor, n, best_effort=best_effort, until=until), single=True)


def _tail(job: Target, after: str | None, limit: int, best_effort: bool, until: str | None = None) -> Tail:
    if isinstance(limit, bool) or not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit is {limit!r}; use 1 to {MAX_PAGE:,}")
    return Tail(_id(job), after, limit, best_effort=best_effort, until=until)


def _id(job: Target) -> str:
    return job.id if isinstance(job, Job) else check_name("the id", job)


def _silence(tail: Tail, since: float, patience: float | None) -> float | None:
    """Return the seconds to wait now; None if the silence has lasted too long."""
    left = tail.silence if patience is None else since + patience - time.monotonic()
    return min(left, tail.silence) if left > 0 else None


def _once_slow() -> Callable[[float], bool]:
    """Return a function that is True once, when nothing has come for long since an instant."""
    warned = False

    def is_slow(since: float) -> bool:
        nonlocal warned
        is_first = not warned and time.monotonic() - since >= watch.PATIENCE
        warned = warned or is_first
        return is_first

    return is_slow


def _ended(job_ids: Sequence[str]) -> Op[list[Ended]]:
    return Op(lambda tx: queries.outcomes_of(tx, job_ids), single=True)


def _there(job_ids: Sequence[str]) -> Op[set[str]]:
    return Op(lambda tx: tenants.owned_of(tx, None, job_ids), single=True)


def _existing(job_id: str) -> Op[JobRecord]:
    return Op(lambda tx: queries.get_job(tx, job_id), single=True)
