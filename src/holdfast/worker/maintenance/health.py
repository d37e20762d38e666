"""Health of this process: CPU, memory and claim times."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from ...clock import Clock
from ...model.stats import Vitals
from ...rules.stats import percentile

EVERY: Final = 10.0
"""Minimum seconds between two reports: they share a heartbeat's commit, but not every one."""
_WINDOW: Final = 60.0
_MOST: Final = 1_024


class ClaimTimes:
    """Durations of the latest claims. Written on the loop's thread, read on the heartbeat's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: deque[tuple[float, float]] = deque(maxlen=_MOST)
        self.total = 0

    def add(self, started: float) -> None:
        now = self._clock.monotonic()
        self._last.append((now, now - started))
        self.total += 1

    def recent(self) -> list[float]:
        """Durations of the last minute in ascending order; at most the newest thousand."""
        oldest = self._clock.monotonic() - _WINDOW
        return sorted(took for at, took in list(self._last) if at >= oldest)


class HealthSampler:
    """Samples the process's health at intervals. `waiting` returns the number of pending writes."""

    def __init__(self, clock: Clock, claims: ClaimTimes, waiting: Callable[[], int]) -> None:
        self._clock = clock
        self._claims = claims
        self._waiting = waiting
        self._lock = threading.Lock()
        self._last = (clock.monotonic(), time.process_time())
        self._due = float("-inf")

    def examine(self) -> Vitals | None:
        """Return a sample; None if the last one is recent."""
        with self._lock:
            now, used = self._clock.monotonic(), time.process_time()
            if now < self._due:
                return None
            self._due = now + EVERY
            (then, before), self._last = self._last, (now, used)
        took = self._claims.recent()
        return Vitals(
            cpu=(used - before) / (now - then) if now > then else 0.0,
            rss=resident(),
            claims=len(took),
            claim_p50=percentile(took, 0.5),
            claim_p99=percentile(took, 0.99),
            waiting=self._waiting(),
        )


def resident() -> int:
    """Return the process's resident memory in bytes; its peak where the system does not report the current value."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
