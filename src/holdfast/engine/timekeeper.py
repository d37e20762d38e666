"""One thread that keeps every deadline of the worker, so that no job needs a timer of its own.

It runs beside the event loop, so that the lease is watched even while a handler blocks the loop.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable

from ..clock import Clock


class Timekeeper:
    """Calls functions at their time, from its own thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call `call` so many seconds from now; it must not block, and must bear being called too late."""
        due = self._clock.monotonic() + seconds
        with self._changed:
            heapq.heappush(self._heap, (due, next(self._order), call))
            if self._heap[0][0] == due:
                self._start()
                self._changed.notify()

    def run_once(self) -> float | None:
        """Call what is due; seconds until the next deadline, None if there is none."""
        due: list[Callable[[], None]] = []
        with self._changed:
            now = self._clock.monotonic()
            while self._heap and self._heap[0][0] <= now:
                due.append(heapq.heappop(self._heap)[2])
            rest = self._heap[0][0] - now if self._heap else None
        for call in due:
            call()
        return rest

    def close(self) -> None:
        """Forget every deadline and end the thread."""
        with self._changed:
            self._closed = True
            self._heap[:] = [(0.0, next(self._order), _nothing)]
            self._changed.notify()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="holdfast-timekeeper", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while not self._closed:
            self.run_once()
            with self._changed:
                # Looked at again under the lock: a deadline may have come in between.
                rest = self._heap[0][0] - self._clock.monotonic() if self._heap else None
                if rest is None or rest > 0:
                    self._changed.wait(rest)


def _nothing() -> None:
    """Due at once, so that the thread looks up and sees that it is over."""
