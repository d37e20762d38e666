"""How much room an outbox has, without counting at each put."""

from __future__ import annotations

import threading
from typing import Final

from ..clock import SYSTEM_CLOCK

# Of the room that was counted, what may be used before it is counted again: others put too.
_SHARE: Final = 4
_TRUSTED_FOR: Final = 30.0


class Gauge:
    """Far from the cap puts are free; the nearer, the more often they are counted. For all threads of a process."""

    def __init__(self, cap: int | None) -> None:
        self.cap: Final = cap
        self._lock = threading.Lock()
        self._left = 0
        self._until = float("-inf")
        self._where: object = None

    def take(self, n: int, where: object) -> bool:
        """Whether so many may be put without a look at the store, which is `where`."""
        if self.cap is None:
            return True
        with self._lock:
            if self._left < n or self._where is not where or SYSTEM_CLOCK.monotonic() > self._until:
                return False
            self._left -= n
            return True

    def learn(self, entries: int, where: object) -> None:
        """So many there were just now."""
        if self.cap is not None:
            with self._lock:
                self._where = where
                self._left = max(0, self.cap - entries) // _SHARE
                self._until = SYSTEM_CLOCK.monotonic() + _TRUSTED_FOR
