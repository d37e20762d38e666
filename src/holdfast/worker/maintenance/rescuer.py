"""Rescues the jobs of lost workers. Every worker runs it; the first one wins, the others change nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...clock import SECOND, SYSTEM_CLOCK, Clock
from ...model.workers import WorkerRecord
from ...storage.ops.jobs import queries
from ...storage.ops.workers import workers
from ...storage.port import Op, Store, Tx
from ..processes.identity import is_gone

logger: Final = logging.getLogger("holdfast.worker")

# Seconds by which the store's clock may differ from the time since the last check.
_CLOCK_STEP: Final = 2.0
# Longest wait for locks: the next check comes soon, and the jobs of other lost workers wait meanwhile.
_PATIENCE: Final = 1.0
# After the end of a lease, so that a check at that moment finds it expired.
_JUST_AFTER: Final = 0.01


class Rescuer:
    """Counts another worker's silence only over time in which this worker renewed its own lease without a gap."""

    def __init__(
        self,
        store: Store,
        own_id: Callable[[], str],
        steady_for: Callable[[], float],
        random: Callable[[], float],
        clock: Clock = SYSTEM_CLOCK,
        *,
        interval: float,
    ) -> None:
        """`interval`: seconds between two checks, unless a lease ends before."""
        self.interval = interval
        self._store = store
        self._own_id = own_id
        self._steady_for = steady_for
        self._random = random
        self._clock = clock
        self._last_check: tuple[int, float, float] | None = None
        self._stepped_at = float("-inf")

    async def run_once(self) -> float | None:
        """Rescue the jobs of lost workers; return the seconds to the next lease end if that is before the interval."""
        failure: Exception | None = None
        asked_at = self._clock.monotonic()
        now, found = await self._store.aread(Op(_read_workers))
        self._watch_clock(now, asked_at)
        for worker in found:
            try:
                await self._check(worker)
            except Exception as error:
                # An error with one worker's jobs must not delay the others'.
                failure = error
        if failure is not None:
            raise failure
        return self._rest(now, found)

    def _rest(self, now: int, found: list[WorkerRecord]) -> float | None:
        """Return the seconds to the next lease end, if below the interval; live workers renew long before that."""
        ends = [worker.lease_until - now for worker in found if worker.state != "dead" and not worker.is_expired]
        rest = min(ends, default=now) / SECOND + _JUST_AFTER
        return rest if rest < self.interval else None

    async def _check(self, worker: WorkerRecord) -> None:
        if worker.id == self._own_id():
            return
        if is_gone(worker.process_key):
            await self._rescue(worker, certain=True)
        elif self._has_been_silent(worker) and (worker.state == "dead" or not self._clock_is_doubtful(worker)):
            await self._rescue(worker, certain=False)

    def _has_been_silent(self, worker: WorkerRecord) -> bool:
        # After an outage of the store every lease has expired: wait one lease with the store up.
        return worker.state == "dead" or (worker.is_expired and self._steady_for() >= worker.lease / SECOND)

    def _clock_is_doubtful(self, worker: WorkerRecord) -> bool:
        return self._clock.monotonic() - self._stepped_at < worker.lease / SECOND

    def _watch_clock(self, now: int, asked_at: float) -> None:
        """Detect steps of the store's clock: set forward, all leases seem expired before any worker can renew."""
        answered_at = self._clock.monotonic()
        if self._last_check is not None:
            then, asked_then, answered_then = self._last_check
            passed = (now - then) / SECOND
            if not asked_at - answered_then - _CLOCK_STEP <= passed <= answered_at - asked_then + _CLOCK_STEP:
                stepped = passed - (asked_at - asked_then)
                logger.warning("the store's clock stepped by %.1f s; no job is rescued for one lease", stepped)
                self._stepped_at = answered_at
        self._last_check = (now, asked_at, answered_at)

    async def _rescue(self, worker: WorkerRecord, *, certain: bool) -> None:
        count = await rescue_all(self._store, worker.id, certain=certain, spread=self._random())
        if count:
            jobs = "1 of its jobs is" if count == 1 else f"{count:,} of its jobs are"
            logger.warning("worker %s (%s) is lost; %s ready again", worker.id, worker.name, jobs)


async def _read_workers(tx: Tx) -> tuple[int, list[WorkerRecord]]:
    return await queries.clock(tx), await workers.list_workers(tx)


async def rescue_all(store: Store, worker_id: str, *, certain: bool, spread: float = 0.0) -> int:
    """Rescue a worker's jobs page by page; return their number."""
    count = 0
    while True:
        page = await store.awrite(
            Op(
                lambda tx: workers.rescue(tx, worker_id, certain=certain, spread=spread, waits=False),
                patience=_PATIENCE,
            )
        )
        count += len(page.rescued)
        if not page.more:
            return count
