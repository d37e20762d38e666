"""Clocks. Instants are integer microseconds since 1970; durations are seconds outside and microseconds inside."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

SECOND: Final = 1_000_000


class Clock(Protocol):
    """A wall clock for stored instants, and a monotonic one for measurements."""

    def now(self) -> int:
        """Return the wall clock in microseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never step."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that a test moves by hand. A store that is given one uses it in place of the database's clock."""

    def __init__(self, start: int = 1_700_000_000 * SECOND) -> None:
        self._lock = threading.Lock()
        self._now = start
        self._monotonic = 1000.0

    def now(self) -> int:
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        with self._lock:
            return self._monotonic

    def advance(self, seconds: float) -> None:
        """Advance both clocks."""
        with self._lock:
            self._now += round(seconds * SECOND)
            self._monotonic += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or NTP would; no time passes."""
        with self._lock:
            self._now += round(seconds * SECOND)


SYSTEM_CLOCK: Final = SystemClock()
