"""A worker that rests while there is no work: for databases that are paid by the query or by the time they are awake.

Once nothing has run for a while and nothing is left to do in the store, the worker deregisters. From then on one
statement per `idle` seconds, a wake-up, or a timer for what is due next starts it again. It has no jobs while it rests,
so it needs no lease, and the time until the jobs of a killed worker are rescued grows by `idle` at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ..clock import Clock
from ..errors import HoldfastError
from ..storage.ops.workers.rest import RestCheck, check_rest
from ..storage.port import Listener, Op, Store
from ..tasks.resources import ResourceHost
from .condition import STARTING, STOPPING, Condition
from .settings import WorkerSettings
from .worker import Worker

logger: Final = logging.getLogger("holdfast.worker")

SETTLE: Final = 90.0
"""Seconds without a run before it rests: the last minute is then in the statistics."""
ROUND: Final = 86_400.0
"""Longest rest: then it works for a moment without being asked, to delete what is old."""

_ROUND_LASTS: Final = 15.0
_TICK: Final = 0.5
# Of the time between two statements, for the rounds and for the jitter, so that the average is not above one.
_SPARE: Final = 1.15
_JITTER: Final = 0.1
# Before something is due: the time of a start.
_EARLY: Final = 1.0
_NOT_WORTH_IT: Final = 10.0
_LAST_CHANCE: Final = 1.0
_PAUSE_AFTER_ERROR: Final = 5.0

Make = Callable[[str | None, ResourceHost | None], Worker]
"""Makes a worker with an identity, None for a new one."""


class RestingWorker:
    """Used like a `Worker`, which it makes anew after each rest. Its resources stay open."""

    def __init__(
        self,
        make: Make,
        store: Store,
        settings: WorkerSettings,
        clock: Clock,
        random: Callable[[], float],
        *,
        resources: ResourceHost,
        identity: str | None = None,
        settle: float = SETTLE,
        longest_rest: float = ROUND,
    ) -> None:
        self._make = make
        self._store = store
        self._settings = settings
        self._clock = clock
        self._random = random
        self._resources = resources
        self._identity = identity
        self._settle = settle
        self._longest_rest = longest_rest
        self.queues: tuple[str, ...] = ()
        self._served: tuple[str, ...] = ()
        self._living: asyncio.Task[None] | None = None
        self._listener: Listener | None = None
        self._checked_at = clock.monotonic()
        self._leave = asyncio.Event()
        self.worker: Worker | None = None
        """The worker, unless this one rests."""
        self.checks = 0
        """Statements made at rest."""
        self.resting: Final = asyncio.Event()
        """Set while it rests."""

    @property
    def id(self) -> str:
        """The worker's id in the store, also at rest, when it is not registered."""
        return self.worker.id if self.worker is not None else self._identity or ""

    @property
    def error(self) -> BaseException | None:
        """The error after which the worker must be restarted."""
        if self._living is not None and self._living.done() and not self._living.cancelled():
            return self._living.exception()
        return None if self.worker is None else self.worker.error

    @property
    def is_worn_out(self) -> bool:
        return self.worker is not None and self.worker.is_worn_out

    def stop_runs(self, why: str) -> None:
        if self.worker is not None:
            self.worker.stop_runs(why)

    def condition(self) -> Condition:
        """Return whether it is alive and ready; at rest it is ready if it checks the store in time."""
        worker = self.worker
        if worker is not None:
            return worker.condition()
        if self._leave.is_set():
            return STOPPING
        if not self.resting.is_set():
            return STARTING
        silence = self._clock.monotonic() - self._checked_at
        if silence > 2 * self._settings.idle + self._settings.lease:
            return Condition(False, False, f"the worker rests and has not checked the store for {silence:.0f} s")
        if self._store.outage.is_on:
            return Condition(True, False, "the store is unavailable")
        return Condition(True, True)

    async def start(self) -> None:
        await self._resources.abegin()
        await self._begin()
        self._store.wakeups.relax(self._settings.idle)
        self._listener = self._store.wakeups.listen([f"queue:{queue}" for queue in self._served] + ["schedules"])
        self._living = asyncio.create_task(self._live())

    async def stop(self, grace: float | None = None) -> None:
        self._leave.set()
        try:
            if self._living is not None:
                await self._end_living(self._living)
            if self.worker is not None:
                await self.worker.stop(grace)
        finally:
            if self._listener is not None:
                self._listener.close()
            await self._resources.aclose(self._settings.grace)

    async def _end_living(self, living: asyncio.Task[None]) -> None:
        """End the loop when it neither starts nor stops the worker. A store that is down is not waited for."""
        assert self._listener is not None
        self._listener.notify()
        await asyncio.wait({living}, timeout=_LAST_CHANCE)
        living.cancel()
        await asyncio.wait({living})

    async def _begin(self) -> None:
        worker = self._make(self._identity, self._resources)
        await worker.start()
        self.worker, self._identity = worker, worker.id
        self.queues = worker.queues
        self._served = (*worker.queues, *(relay.queue for relay in worker.relays.all))

    async def _live(self) -> None:
        quiet_after = self._settle
        while not self._leave.is_set():
            try:
                if self.worker is None:
                    await self._begin()
                has_round = await self._work_and_rest(quiet_after)
                quiet_after = min(self._settle, _ROUND_LASTS) if has_round else self._settle
            except Exception:
                logger.exception("a worker could not rest or continue; trying again in %g s", _PAUSE_AFTER_ERROR)
                await asyncio.sleep(_PAUSE_AFTER_ERROR)

    async def _work_and_rest(self, quiet_after: float) -> bool:
        """Return at the end of a rest, without a worker; True if it is only time for a round."""
        due_in = await self._work(quiet_after)
        if self._leave.is_set():
            return False
        await self._fall_asleep(due_in)
        try:
            return await self._rest(due_in)
        finally:
            self.resting.clear()

    async def _work(self, quiet_after: float) -> float | None:
        """Return once the worker may rest: the seconds until something is due, None if nothing is."""
        worker = self.worker
        assert worker is not None
        tick = min(_TICK, quiet_after / 2)
        began, seen = self._clock.monotonic(), worker.runner.taken
        while not self._leave.is_set():
            await asyncio.sleep(tick)
            now = self._clock.monotonic()
            if worker.runner.taken != seen or not worker.is_idle or worker.relays.delivering:
                began, seen = now, worker.runner.taken
                quiet_after = self._settle
            elif now - began >= quiet_after:
                found = await self._check()
                if found is not None and not found.has_work and _is_far(found.due_in):
                    return found.due_in
                # Not asked again before half of that time.
                began, quiet_after = now - self._settle / 2, self._settle
        return None

    async def _fall_asleep(self, due_in: float | None) -> None:
        worker = self.worker
        assert worker is not None
        await worker.stop()
        self.worker = None
        self._checked_at = self._clock.monotonic()
        self.resting.set()
        due = "nothing is due" if due_in is None else f"something is due in {due_in:.0f} s"
        logger.info("worker %s rests: there is no work, and %s", self.id, due)

    async def _rest(self, due_in: float | None) -> bool:
        """Return when there may be work; True if it is only time for a round."""
        assert self._listener is not None
        began = self._clock.monotonic()
        due_at = None if due_in is None else began + due_in - _EARLY
        round_at = began + self._longest_rest
        while not self._leave.is_set():
            now = self._clock.monotonic()
            next_check = self._settings.idle * (_SPARE + _JITTER * self._random())
            until = min(at for at in (due_at, round_at, now + next_check) if at is not None)
            await self._listener.await_ring(max(0.0, until - now))
            now = self._clock.monotonic()
            if now >= round_at or (due_at is not None and now >= due_at):
                return due_at is None or now < due_at
            found = None if self._leave.is_set() else await self._check()
            if found is not None:
                if found.has_work or not _is_far(found.due_in):
                    return False
                due_at = None if found.due_in is None else self._clock.monotonic() + found.due_in - _EARLY
        return False

    async def _check(self) -> RestCheck | None:
        """Return what there is; None if the store fails, which counts as no answer."""
        self.checks += 1
        self._checked_at = self._clock.monotonic()
        queues = self._served
        try:
            found = await self._store.aread(Op(lambda tx: check_rest(tx, queues), single=True))
        except HoldfastError as error:
            if not self._store.outage.covers("the check of a worker that rests", error):
                logger.error("could not check for work (%s: %s)", type(error).__name__, error)
            return None
        self._store.outage.passed()
        return found


def _is_far(due_in: float | None) -> bool:
    return due_in is None or due_in > _NOT_WORTH_IT
