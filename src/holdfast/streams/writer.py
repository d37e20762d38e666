"""Writes the frames of all runs of this process to the store, on one thread that lives while a stream is open.

Each run has a buffer of frames that are not stored yet. Everything that is due is written in one commit, for any number
of runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from ..errors import HoldfastError, LeaseLost, NotFound, StreamFull
from ..ids import token
from ..model.streams import MAX_FRAMES, Appended, Batch, Draft, Progress
from ..storage.forking import renew_after_fork
from ..storage.ops import streams
from ..storage.port import Op, Store
from ..tasks.context import JobInfo, Stop
from .calls import buffer_of

if TYPE_CHECKING:
    from ..durable.calls import Durable
    from .capture import Sink

logger: Final = logging.getLogger("holdfast.streams")
BUFFERED_SECONDS: Final = 0.02
"""Seconds that a frame waits at most for others to share its commit."""
_PROGRESS_SECONDS: Final = 0.25
# The stage changes that are stored each time of a run that changes its stage faster than that.
_MOST_STAGES: Final = 32
# A caller that emits more than this waits until it is stored.
_MOST_FRAMES: Final = 2_000
_MOST_BYTES: Final = 4 * 1024 * 1024
# Printing cannot wait. Captured output is dropped when this many times as much is waiting.
_CAPTURED: Final = 4
# Stop reasons after which further frames are ignored.
_TOO_LATE: Final = frozenset({"lost", "fenced"})


class FrameWriter:
    """Writes the frames of one app's runs."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Start empty in a forked child, which has neither the parent's runs nor its thread."""
        # Re-entrant: a finaliser may print while its thread holds the lock, and the output may be captured.
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._buffers: dict[FrameBuffer, None] = {}
        self._thread: threading.Thread | None = None

    def open(self, info: JobInfo, stop: Stop) -> FrameBuffer:
        return FrameBuffer(self, info, stop)

    # -- called under the lock

    def wake(self) -> None:
        """Wake the thread, or start it: there is something to store."""
        self._changed.notify_all()

    def enlist(self, buffer: FrameBuffer) -> None:
        self._buffers[buffer] = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="holdfast-streams", daemon=True)
            self._thread.start()

    def forget(self, buffer: FrameBuffer) -> None:
        self._buffers.pop(buffer, None)
        self._changed.notify_all()

    # -- the thread

    def _serve(self) -> None:
        try:
            self._work()
        except BaseException as error:
            # No caller may wait forever for a thread that has ended.
            logger.exception("the streams of this process failed")
            with self.lock:
                self._thread = None
                for buffer in list(self._buffers):
                    buffer.fail(HoldfastError(f"the stream failed: {error!r}"))

    def _work(self) -> None:
        while taken := self._take():
            buffers = list(taken)
            answers = self._write(list(taken.values()))
            with self.lock:
                now = time.monotonic()
                for buffer, answer in zip(buffers, answers, strict=True):
                    if answer is None:
                        buffer.postpone(now)
                    else:
                        buffer.settle(answer)

    def _take(self) -> dict[FrameBuffer, Batch]:
        """Wait until batches are due and return them; return nothing when the thread may end."""
        with self.lock:
            while self._buffers:
                now = time.monotonic()
                times = {buffer: due for buffer in self._buffers if (due := buffer.due()) is not None}
                if taken := {buffer: buffer.take(now) for buffer, due in times.items() if due <= now}:
                    return taken
                self._changed.wait(min(times.values()) - now if times else None)
            self._thread = None
            return {}

    def _write(self, batches: Sequence[Batch]) -> list[Appended | HoldfastError | None]:
        """Return one result for each batch; None if it is to be tried again."""
        try:
            store = self._store()
            answers = store.write(_append(batches))
            store.outage.passed()
            return [*answers]
        except Exception as error:
            if isinstance(error, HoldfastError) and error.retryable:
                if not self._store().outage.covers("the streams of jobs", error):
                    logger.warning("the frames of %d jobs are not stored yet (%s); retrying", len(batches), error)
                return [None] * len(batches)
            if len(batches) > 1:
                # One batch caused the error, and only that one shall fail.
                return [answer for batch in batches for answer in self._write([batch])]
            logger.exception("the frames of job %s cannot be stored", batches[0].job_id)
            return [error if isinstance(error, HoldfastError) else HoldfastError(f"the stream failed: {error!r}")]


def _append(batches: Sequence[Batch]) -> Op[list[Appended | HoldfastError]]:
    may_lose_on_power_failure = not any(
        batch.stages or not all(draft.best_effort for draft in batch.drafts) for batch in batches
    )
    return Op(lambda tx: streams.append(tx, batches), may_lose_on_power_failure=may_lose_on_power_failure)


class FrameBuffer:
    """Safe from any thread. All state is under the writer's lock; the writer takes what is due from here."""

    def __init__(self, writer: FrameWriter, info: JobInfo, stop: Stop) -> None:
        self.info: Final = info
        self.stop: Final = stop
        self.source: Sink | None = None
        """Captures what the run prints and logs; it may hold back an unfinished line."""
        self._frame_writer = writer
        self._lock = writer.lock
        self._writer = token()
        self._serial = 0
        self._drafts: list[Draft] = []
        self._size = 0
        self._progress: Progress | None = None
        self._stages: list[str] = []
        self._stage: str | None = None
        self._flight: tuple[Batch, int] | None = None
        self._said = self._stored = 0
        self._waiting: list[tuple[int, Future[None]]] = []
        self._taken_at = 0.0
        self._not_before = 0.0
        self._pauses = 0
        self._head = 0
        self._error: HoldfastError | None = None
        self._is_full = self._is_reported = False
        self._is_open = True

    # -- the handler's side

    def put(self, draft: Draft, *, captured: bool = False) -> Future[None] | None:
        """Take a frame. If too much is waiting, return the future to wait for."""
        with self._lock:
            if not captured:
                self._refuse(draft)
            elif self._error or self._is_full or not self._is_open or self._is_crowded(_CAPTURED):
                return None
            self._drafts.append(draft)
            self._size += len(draft.data)
            self._note(is_first=len(self._drafts) == 1)
            return self._wait() if self._is_crowded() and not captured else None

    def restart(self, step: str) -> None:
        """Supersede the earlier frames of a step that begins again."""
        self.put(Draft("", "restart", b"", step), captured=True)

    def tell(self, progress: Progress) -> None:
        """Report progress. Only the last value of each field is stored, and each new stage."""
        with self._lock:
            self._refuse()
            if progress.stage is not None and progress.stage != self._stage:
                self._stage = progress.stage
                self._stages = [*self._stages, progress.stage][-_MOST_STAGES:]
            self._progress = (self._progress or Progress()).updated(progress)
            self._note()

    def flush(self) -> Future[None] | None:
        """Return a future that is done when all frames are stored; None if they are."""
        with self._lock:
            return self._wait()

    def check(self) -> None:
        """Raise the error of an earlier write."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._is_full and not self._is_reported:
                self._is_reported = True
                raise StreamFull(self.info.id)

    def finish(self) -> Future[None] | None:
        """Store the rest after the handler has ended; None if there is none."""
        if self.source is not None:
            self.source.close()
        with self._lock:
            self._is_open = False
            rest = self._wait()
            if rest is None:
                self._frame_writer.forget(self)
            return rest

    def abandon(self) -> None:
        """Drop the frames that are not stored: this run no longer counts."""
        if self.source is not None:
            self.source.close()
        with self._lock:
            self.fail(LeaseLost(f"job {self.info.id} is no longer this run's; its last frames are lost"))

    @property
    def is_closed(self) -> bool:
        """True if the handler has ended."""
        return not self._is_open

    @property
    def failure(self) -> HoldfastError | None:
        """Return the write error that the handler has not seen. The loss of the lease is reported elsewhere."""
        if self._error is not None and not isinstance(self._error, (LeaseLost, NotFound)):
            return self._error
        return StreamFull(self.info.id) if self._is_full and not self._is_reported else None

    def _is_crowded(self, times: int = 1) -> bool:
        return len(self._drafts) >= times * _MOST_FRAMES or self._size >= times * _MOST_BYTES

    def _refuse(self, draft: Draft | None = None) -> None:
        if self._error is not None:
            raise self._error
        if not self._is_open:
            raise LeaseLost(f"the run of job {self.info.id} has ended; its stream is closed")
        if draft is None or draft.best_effort:
            return
        if self._is_full or self._head + len(self._drafts) >= MAX_FRAMES:
            self._is_full = self._is_reported = True
            raise StreamFull(self.info.id)

    def _note(self, *, is_first: bool = False) -> None:
        # A first frame is due before the progress for which the writer may be waiting.
        was_idle = self._said == self._stored
        self._said += 1
        if was_idle or is_first:
            self._frame_writer.enlist(self)
            self._frame_writer.wake()

    def _wait(self) -> Future[None] | None:
        if self._said == self._stored or self._error is not None:
            return None
        future: Future[None] = Future()
        self._waiting.append((self._said, future))
        self._frame_writer.wake()
        return future

    # -- the writer's side, under its lock

    def due(self) -> float | None:
        """Return when to take a batch, by the monotonic clock; None if there is nothing."""
        if self._said == self._stored:
            return None
        if self._waiting:
            return self._not_before
        pause = BUFFERED_SECONDS if self._drafts or self._flight else _PROGRESS_SECONDS
        return max(self._not_before, self._taken_at + pause)

    def take(self, now: float) -> Batch:
        """Return the batch to store; the same one again until it is settled."""
        if self._flight is None:
            info, self._serial = self.info, self._serial + 1
            batch = Batch(
                job_id=info.id,
                owner=info.worker,
                epoch=info.epoch,
                generation=info.generation,
                attempt=info.attempt,
                writer=self._writer,
                serial=self._serial,
                drafts=tuple(self._drafts),
                progress=self._progress,
                stages=tuple(self._stages),
            )
            self._drafts, self._size, self._progress, self._stages = [], 0, None, []
            self._flight = (batch, self._said)
        self._taken_at = now
        return self._flight[0]

    def settle(self, answer: Appended | HoldfastError) -> None:
        if self._flight is None:
            return
        if not isinstance(answer, Appended):
            self.fail(answer)
            return
        self._stored, self._flight = self._flight[1], None
        self._head, self._pauses = answer.head, 0
        self._is_full = self._is_full or answer.refused > 0
        self._resolve()

    def postpone(self, now: float) -> None:
        """Try again later, less and less often, while the store is unavailable and the run may continue."""
        if self.stop.reason in _TOO_LATE:
            self.fail(LeaseLost(f"job {self.info.id} is no longer this run's; its last frames are lost"))
            return
        self._pauses = min(self._pauses + 1, 6)
        self._not_before = now + BUFFERED_SECONDS * (1 << self._pauses)

    def fail(self, error: HoldfastError) -> None:
        """Give up the waiting frames with this error."""
        self._error = self._error or error
        self._drafts, self._size, self._progress, self._flight = [], 0, None, None
        self._stored = self._said
        self._resolve()

    def _resolve(self) -> None:
        waiting, self._waiting = self._waiting, []
        for upto, future in waiting:
            if upto > self._stored:
                self._waiting.append((upto, future))
            elif not future.done():
                future.set_result(None)
        if not self._is_open and self._said == self._stored:
            self._frame_writer.forget(self)


async def restart_step(durable: Durable, step: str) -> None:
    """Begin a step that may have run before. Most jobs have no stream: they check once per run."""
    info, stop = durable.info, durable.stop
    if stop.buffer is None:
        if durable.is_inline or durable.says_nothing:
            return
        durable.says_nothing = not await durable.io.read(Op(lambda tx: streams.has_stream(tx, info.id), single=True))
        if durable.says_nothing:
            return
    buffer_of(info, durable.app, stop).restart(step)
