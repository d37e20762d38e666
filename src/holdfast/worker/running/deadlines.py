"""One thread for every deadline of the worker, so that no job needs a timer of its own.

It is not the event loop's thread, so the lease is checked even while a handler blocks the loop.
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
    """A pending call. Remove it with `forget` once it is not needed: it may keep large objects alive."""

    __slots__ = ("call", "due")

    def __init__(self, call: Callable[[], None], due: float) -> None:
        self.call: Callable[[], None] | None = call
        self.due = due


class DeadlineTimer:
    """Calls functions at their deadlines, on its own thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Deadline]] = []
        self._forgotten = 0
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def after(self, seconds: float, call: Callable[[], None]) -> Deadline:
        """Call `call` after `seconds`; it must not block, and must tolerate being called late."""
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
        """Return the seconds until the deadline; 0 if it has passed."""
        return max(0.0, deadline.due - self._clock.monotonic())

    def forget(self, deadline: Deadline) -> None:
        """Drop a deadline whose call is not needed any more."""
        with self._changed:
            if deadline.call is None:
                return
            deadline.call = None
            self._forgotten += 1
            # Far deadlines of short jobs would pile up; removed when they are most of the heap, at constant cost each.
            if self._forgotten > max(_WORTH_SWEEPING, len(self._heap) // 2):
                self._heap = [entry for entry in self._heap if entry[2].call is not None]
                heapq.heapify(self._heap)
                self._forgotten = 0

    def run_once(self) -> float | None:
        """Make the calls that are due; return the seconds until the next deadline, None if there is none."""
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
                logger.exception("the call of a deadline failed; the others continue")
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
                # Checked again under the lock: a deadline may have been added meanwhile.
                if not self._closed:
                    self._pause()

    def _pause(self) -> None:
        rest = self._heap[0][0] - self._clock.monotonic() if self._heap else None
        if rest is None or rest > 0:
            self._changed.wait(rest)
