"""One thread that keeps every deadline of the worker, so that no job needs a timer of its own.

It runs beside the event loop, so that the lease is watched even while a handler blocks the loop.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from typing import Final

from ...clock import Clock

logger: Final = logging.getLogger("holdfast.worker")

_WORTH_SWEEPING: Final = 1_000


class Deadline:
    """A call to be made. Forget it by the timekeeper once it is pointless: it may hold much."""

    __slots__ = ("call", "due")

    def __init__(self, call: Callable[[], None], due: float) -> None:
        self.call: Callable[[], None] | None = call
        self.due = due


class DeadlineTimer:
    """Calls functions at their time, from its own thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Deadline]] = []
        self._forgotten = 0
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def after(self, seconds: float, call: Callable[[], None]) -> Deadline:
        """Call `call` so many seconds from now; it must not block, and must bear being called too late."""
        due = self._clock.monotonic() + seconds
        deadline = Deadline(call, due)
        with self._changed:
            if not self._closed:
                heapq.heappush(self._heap, (due, next(self._order), deadline))
                if self._heap[0][0] == due:
                    self._start()
                    self._changed.notify()
        return deadline

    def left(self, deadline: Deadline) -> float:
        """Seconds until then; none if it has passed."""
        return max(0.0, deadline.due - self._clock.monotonic())

    def forget(self, deadline: Deadline) -> None:
        """The call is not needed any more."""
        with self._changed:
            if deadline.call is None:
                return
            deadline.call = None
            self._forgotten += 1
            # Far deadlines of short jobs would pile up; swept when they are most of the heap, the cost stays constant.
            if self._forgotten > max(_WORTH_SWEEPING, len(self._heap) // 2):
                self._heap = [entry for entry in self._heap if entry[2].call is not None]
                heapq.heapify(self._heap)
                self._forgotten = 0

    def run_once(self) -> float | None:
        """Call what is due; seconds until the next deadline, None if there is none."""
        due: list[Callable[[], None]] = []
        with self._changed:
            now = self._clock.monotonic()
            while self._heap and self._heap[0][0] <= now:
                self._take(heapq.heappop(self._heap)[2], due)
            rest = self._heap[0][0] - now if self._heap else None
        for call in due:
            try:
                call()
            except Exception:
                logger.exception("a deadline could not be kept; the others are")
        return rest

    def close(self) -> None:
        """Forget every deadline and end the thread."""
        with self._changed:
            self._closed = True
            self._heap.clear()
            self._changed.notify()

    def _take(self, deadline: Deadline, due: list[Callable[[], None]]) -> None:
        if deadline.call is None:
            self._forgotten -= 1
        else:
            due.append(deadline.call)
            deadline.call = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="holdfast-timekeeper", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while not self._closed:
            self.run_once()
            with self._changed:
                # Looked at again under the lock: a deadline may have come in between.
                if not self._closed:
                    self._pause()

    def _pause(self) -> None:
        rest = self._heap[0][0] - self._clock.monotonic() if self._heap else None
        if rest is None or rest > 0:
            self._changed.wait(rest)
