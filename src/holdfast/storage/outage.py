"""One log line when the store fails and one when it works again, for all parts of a process together."""

from __future__ import annotations

import logging
import threading
from typing import Final

from ..clock import SYSTEM_CLOCK
from ..errors import OutcomeUnknown, StorageBusy, StorageFull, StorageReadOnly, StorageUnavailable
from ..names import counted

logger: Final = logging.getLogger("holdfast.worker")

_OF_THE_STORE: Final = (StorageUnavailable, OutcomeUnknown, StorageBusy, StorageFull, StorageReadOnly)
# A connection that broke in the outage may fail only now; that begins no new one.
_AFTERMATH: Final = 5.0


class Outage:
    """Outages of one store. Its users report failures from any thread, and need not log those that it covers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._logged = False
        self._ended = float("-inf")
        self._failures = 0

    @property
    def is_on(self) -> bool:
        """True from a failure until the next write that succeeds."""
        return self._since is not None

    def covers(self, part: str, error: BaseException) -> bool:
        """Record a failure of that part; False where the store is not to blame, and the caller should log it."""
        if not isinstance(error, _OF_THE_STORE):
            return False
        with self._lock:
            now = SYSTEM_CLOCK.monotonic()
            if self._since is None:
                self._since, self._failures = now, 0
            self._failures += 1
            log = not self._logged and now - self._ended >= _AFTERMATH
            self._logged = self._logged or log
        if log:
            logger.warning(
                "the store cannot be used (%s: %s); running jobs continue, and calls are retried until it answers",
                type(error).__name__, error,
            )  # fmt: skip
        logger.debug("%s failed without the store: %s: %s", part, type(error).__name__, error)
        return True

    def passed(self) -> None:
        """Record that a write succeeded."""
        if self._since is not None and (ended := self._end()) is not None:
            logger.warning("the store is back after %.1f s; %s failed meanwhile", ended[0], counted(ended[1], "call"))

    def _end(self) -> tuple[float, int] | None:
        """Return how long it lasted and how many calls failed; None where it was not logged."""
        with self._lock:
            since, logged, now = self._since, self._logged, SYSTEM_CLOCK.monotonic()
            self._since, self._logged = None, False
            if since is None or not logged:
                return None
            self._ended = now
            return now - since, self._failures
