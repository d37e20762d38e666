"""How this process fares: processor, memory, and how long its claims take."""

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
"""Seconds between two reports at least: they share a heartbeat's commit, but not each."""
_WINDOW: Final = 60.0
_MOST: Final = 1_024


class ClaimTimes:
    """What the last claims took. Written on the loop's thread, read on the heartbeat's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: deque[tuple[float, float]] = deque(maxlen=_MOST)
        self.total = 0

    def add(self, started: float) -> None:
        now = self._clock.monotonic()
        self._last.append((now, now - started))
        self.total += 1

    def recent(self) -> list[float]:
        """Those of the last minute, the quickest first; of very many the newest thousand."""
        oldest = self._clock.monotonic() - _WINDOW
        return sorted(took for at, took in list(self._last) if at >= oldest)


class HealthSampler:
    """Takes the process's vitals now and then. `waiting` tells how many writes wait for their turn."""

    def __init__(self, clock: Clock, claims: ClaimTimes, waiting: Callable[[], int]) -> None:
        self._clock = clock
        self._claims = claims
        self._waiting = waiting
        self._lock = threading.Lock()
        self._last = (clock.monotonic(), time.process_time())
        self._due = float("-inf")

    def examine(self) -> Vitals | None:
        """The vitals; None if they were taken a moment ago."""
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
    """Bytes of memory that the process holds; where the system does not tell, the most it ever held."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
