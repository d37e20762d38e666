"""A named loop that runs one piece of work repeatedly and survives its errors.

The work itself is a plain coroutine function; a test calls `run_once` or lets the loop run on an injected `sleep`.
"""

from __future__ import annotations

import asyncio
import logging
import random as _random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

from ...storage.outage import Outage
from ...storage.port import Wakeups

logger = logging.getLogger("holdfast.worker")

Work: TypeAlias = "Callable[[], Awaitable[float | None]]"
"""Returns the seconds until the next run (0: at once, there is more to do), or None for the interval."""

Sleep: TypeAlias = "Callable[[float, asyncio.Event], Awaitable[None]]"
"""Returns when the seconds are over or the event is set, whichever comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Timing of a service in seconds; an interval of 0 turns the service off."""

    interval: float
    jitter: float = 0.1
    longest: float = 30.0
    """The ceiling of the back-off after repeated failures; never below the interval."""

    def __post_init__(self) -> None:
        if not self.interval >= 0:
            raise ValueError(f"interval must be 0 (off) or positive seconds, not {self.interval!r}")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be a share from 0 up to 1, not {self.jitter!r}")


class Service:
    """One loop of the worker. `run` ends after `stop`, or at once where the interval is 0."""

    def __init__(
        self,
        name: str,
        work: Work,
        pace: Pace,
        *,
        consequence: str = "its work waits",
        sleep: Sleep | None = None,
        random: Callable[[], float] = _random.random,
        outage: Outage | None = None,
    ) -> None:
        self.name: Final = name
        self.pace: Final = pace
        self.runs = 0
        self.failures = 0
        """Failures since the last success."""
        self.tick: Final = asyncio.Event()
        """Set after every run, failed or not; a waiter clears it first."""
        self._work = work
        self._consequence = consequence
        self._sleep = sleep or sleep_or_wake
        self._random = random
        self._wake = asyncio.Event()
        self._stopping = False
        self._outage = outage
        self._was_outage = False

    @property
    def enabled(self) -> bool:
        return self.pace.interval > 0

    async def run(self) -> None:
        """Run and sleep until stopped. A run under way is finished."""
        while self.enabled and not self._stopping:
            self._wake.clear()
            pause = await self._attempt()
            # A wake-up or stop during the run stays set and ends the sleep at once.
            if not self._stopping:
                await self._sleep(pause, self._wake)

    async def run_once(self) -> float | None:
        """Do the work once; errors reach the caller."""
        return await self._work()

    def wake(self) -> None:
        """Run now instead of at the end of the pause. Call it on the loop's thread."""
        self._wake.set()

    def stop(self) -> None:
        """End the loop after the run under way."""
        self._stopping = True
        self._wake.set()

    async def _attempt(self) -> float:
        try:
            wanted = await self.run_once()
        except Exception as error:
            self.failures += 1
            pause = pause_after_failure(self.pace, self.failures, self._random())
            self._report(error, pause)
        else:
            self._recover()
            pause = spread(self.pace.interval, self.pace.jitter, self._random()) if wanted is None else wanted
        self.runs += 1
        self.tick.set()
        return pause

    def _report(self, error: Exception, pause: float) -> None:
        if self._outage is not None and self._outage.covers(self.name, error):
            self._was_outage = True
            return
        self._was_outage = False
        # The stack once per series of failures: a database that is down for an hour must not fill the disk.
        logger.error(
            "%s failed (%s: %s), %s; next try in %.1f s (failure %d in a row)",
            self.name,
            type(error).__name__,
            error,
            self._consequence,
            pause,
            self.failures,
            exc_info=error if self.failures == 1 else None,
        )

    def _recover(self) -> None:
        if self.failures:
            level = logging.DEBUG if self._was_outage else logging.INFO
            logger.log(level, "%s works again after %d failures", self.name, self.failures)
        self.failures = 0


def pause_after_failure(pace: Pace, failures: int, luck: float) -> float:
    """Return the interval, doubled by each failure in a row after the first, up to the ceiling."""
    doubled = pace.interval * 2.0 ** min(failures - 1, 32)
    return spread(min(doubled, max(pace.longest, pace.interval)), pace.jitter, luck)


def spread(seconds: float, jitter: float, luck: float) -> float:
    """Return `seconds` varied by up to `jitter`, for a `luck` from 0 to 1."""
    return seconds * (1 + jitter * (2 * luck - 1))


async def sleep_or_wake(seconds: float, wake: asyncio.Event) -> None:
    """Sleep until the time is over or `wake` is set."""
    if seconds <= 0:
        # Still yields: work that always asks to run again must not starve the loop.
        await asyncio.sleep(0)
        return
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        return


async def wake_on_topics(wakeups: Wakeups, topics: Collection[str], wake: Callable[[], None]) -> None:
    """Call `wake` at every wake-up for one of the topics, until cancelled."""
    listener = wakeups.listen(topics)
    try:
        while True:
            if await listener.await_ring(60.0):
                wake()
    finally:
        listener.close()
