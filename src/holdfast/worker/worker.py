"""The worker of one process: it registers, claims, runs and records jobs, and deregisters."""

from __future__ import annotations

import asyncio
import logging
import random as _random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..clock import SYSTEM_CLOCK, Clock
from ..errors import HoldfastError
from ..ids import token
from ..model.workers import Owned
from ..storage.ops.workers import workers
from ..storage.port import Op, Store
from ..tasks.middleware import Middleware
from ..tasks.task import Task
from .background import BackgroundTasks, until_done
from .claiming.claimer import Claimer
from .claiming.poller import WorkPoller
from .lease import FENCE_MARGIN, Heartbeat
from .maintenance.health import HealthSampler
from .maintenance.services import Services
from .outbox.relays import Relays
from .processes.pool import ChildPool
from .registration import introduction, served_routes, worth_telling, write_until_stored
from .running.admission import AdmissionCheck
from .running.deadlines import DeadlineTimer
from .running.executor import Executor
from .running.inputs import Inputs
from .running.outcome import OutcomeRules
from .running.runner import JobRunner
from .running.threads import ThreadPool
from .running.watchdog import Watchdog
from .settings import WorkerSettings

logger: Final = logging.getLogger("holdfast.worker")

_LEASES_UNTIL_STUCK: Final = 4
# On SQLite every commit of another process may have cancelled something here.
_BETWEEN_CHECKS: Final = 0.1


class Worker:
    """Create, start and stop it on one event loop."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Task[Any, Any]],
        settings: WorkerSettings,
        *,
        app: Any = None,
        middleware: Sequence[Middleware] = (),
        declarations: Sequence[Op[None]] = (),
        identity: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
        random: Callable[[], float] = _random.random,
        on_stuck: Callable[[], None] | None = None,
        heartbeats: type[Heartbeat] = Heartbeat,
        timekeepers: type[DeadlineTimer] = DeadlineTimer,
    ) -> None:
        """`heartbeats` and `timekeepers` run on threads; a simulation on one thread replaces them."""
        self.id = identity or token()
        self.settings: Final = settings
        self._store = store
        self._tasks = tasks
        self._clock = clock
        self._random = random
        self._on_stuck = on_stuck
        self._heartbeats = heartbeats
        self._declarations = declarations
        self._leaving = False
        self.background: Final = BackgroundTasks()
        self._recorders: list[asyncio.Future[None]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop = asyncio.get_running_loop()
        self.deadlines: Final = timekeepers(clock)
        self.routes: Final = served_routes(settings, tasks, random)
        self._threads = ThreadPool(settings.concurrency)
        self._children = ChildPool(settings.concurrency)
        self.runner: Final = JobRunner(self.id, settings, tasks, self.routes, self.deadlines, self._threads, clock)
        self.claimer: Final = Claimer(
            store, self.runner, clock, slots=settings.concurrency, patience=settings.lease / 2
        )
        self.runner.claimer, self.runner.tally = self.claimer, getattr(app, "tally", self.runner.tally)
        self.health: Final = HealthSampler(clock, self.claimer.claim_times, lambda: store.writes_waiting)
        self.runner.executor = Executor(
            app,
            OutcomeRules(clock, random),
            self._threads,
            self._children,
            self.runner.finished,
            middleware,
            inputs=Inputs(store),
            doorkeeper=AdmissionCheck(store, random, store.outage),
            is_leased=self._is_leased,
        )
        self.runner.on_idle = self._idle.set
        self.heartbeat = self._new_heartbeat()
        self.poller: Final = WorkPoller(store, self.routes, self.runner, poll=settings.poll, random=random)
        self.chores: Final = Services(store, settings, lambda: self.id, self, clock, random, tasks)
        leads = self.chores.leader.holds
        self.relays = self.runner.aside = Relays(store, self.runner, settings, tasks, clock, random, leads)
        self._watchdog: Watchdog | None = None

    # -- life

    async def start(self) -> None:
        """Register and start working. Waits for ever for a store that is down."""
        for declaration in self._declarations:
            await write_until_stored(self._store, declaration, self._clock)
        await self._begin()
        await self.poller.look()
        self._watch_lease()
        self._watchdog = self._start_watchdog()
        beside = (self.poller.run(lambda: self._leaving), self._listen_for_cancels(), *self.chores.start())
        self._recorders = self.background.send(self.claimer.run(self._is_over), self.relays.run())
        self.background.send(*beside)
        queues = ", ".join((*worth_telling(self.routes.queues), *(relay.queue for relay in self.relays.all)))
        logger.info("worker %s serves %s with %d slots", self.id, queues, self.settings.concurrency)

    async def stop(self, grace: float | None = None) -> None:
        """Stop claiming, let running jobs finish within the grace period, hand the rest back, and deregister."""
        self._leaving = self.runner.closing = True
        try:
            await self._try(Op(lambda tx: workers.stop(tx, self.id)))
            await self._drain(self.settings.grace if grace is None else grace)
            await self._flush()
            self.heartbeat.stop()
            # A heartbeat after deregistration would report the worker as lost.
            await asyncio.to_thread(self.heartbeat.join)
            if not await self._try(Op(lambda tx: workers.deregister(tx, self.id))):
                logger.warning("the store does not know that this worker has left; its lease will run out instead")
            await self.chores.leader.resign()
        finally:
            await self._close()

    async def _drain(self, grace: float) -> None:
        try:
            async with asyncio.timeout(grace):
                await self._until_idle()
        except TimeoutError:
            logger.warning("%d jobs did not end within %g s; they are handed back", len(self.runner.runs), grace)
            self.runner.stop_all("shutdown")
            await self._until_idle()

    async def _until_idle(self) -> None:
        while self.runner.runs or self.relays.delivering:
            self._idle.clear()
            await self._idle.wait()

    async def _flush(self) -> None:
        """Write the last outcomes; jobs whose outcome is not stored within a lease are rescued by others."""
        self.claimer.wake.set()
        self.relays.request_claim()
        try:
            async with asyncio.timeout(self.settings.lease):
                await asyncio.wait(self._recorders)
        except TimeoutError:
            logger.error("%d outcomes could not be recorded; those jobs will run again", self.claimer.pending)

    async def _close(self) -> None:
        self.heartbeat.stop()
        self.background.cancel()
        self.poller.close()
        if self._watchdog is not None:
            self._watchdog.stop()
        self.deadlines.close()
        self._threads.close()
        await self.background.until_over()
        await self._children.close()

    @property
    def is_worn_out(self) -> bool:
        """True if so many threads hang that it claims nothing any more; it should be restarted."""
        return self._threads.exhausted

    def _is_over(self) -> bool:
        return self._leaving and not self.runner.runs and not self.claimer.pending

    # -- the lease; `on_renewed`, `fence` and `on_declared_lost` are called on the heartbeat's thread

    @property
    def steady_for(self) -> float:
        return self.heartbeat.steady_for

    def on_renewed(self, owned: list[Owned], asked_at: float) -> None:
        self._post(self._renewed, owned, asked_at)

    def fence(self, why: str) -> None:
        self._post(self._fence, why)

    def on_declared_lost(self, worker_id: str, why: str) -> None:
        self._post(self._restart_identity, worker_id, why)

    def _post(self, call: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            # The loop is closed: nothing runs here any more, so the lease must not be renewed.
            self.heartbeat.stop()

    def _renewed(self, owned: list[Owned], asked_at: float) -> None:
        if self.runner.fenced:
            self.runner.fenced = False
            self.claimer.request_claim()
            self.relays.request_claim()
        self.runner.reconcile(owned, asked_at)

    def _fence(self, why: str) -> None:
        logger.error("%s: every handler is stopped and its job handed back", why)
        self.runner.fenced = True
        self.runner.stop_all("fenced")
        if self.heartbeat.is_stopped and not self._leaving:
            # The watchdog declared this loop dead, but it runs again: the next heartbeat says who owns the jobs.
            self.heartbeat = self._new_heartbeat()
            self.heartbeat.start(self._clock.monotonic() - self.settings.lease)

    def _restart_identity(self, worker_id: str, why: str) -> None:
        if worker_id != self.id:
            # Called twice: a fence between the end of a heartbeat and this call has started another one.
            return
        level = logging.WARNING if self._leaving else logging.ERROR
        logger.log(level, "%s; %s", why, "leaving without them" if self._leaving else "continuing under a new identity")
        self.runner.fenced = True
        self.runner.stop_all("lost")
        self.claimer.forget()
        if not self._leaving:
            self.id = self.runner.id = token()
            self.heartbeat = self._new_heartbeat()
            # In the background, with retries: without it the worker would stay fenced.
            self.background.send(until_done(self._begin_again))

    async def _begin(self) -> None:
        self.heartbeat.start(await self._register())

    async def _begin_again(self) -> None:
        await self._begin()
        self.heartbeat.beat_now()

    def _watch_lease(self) -> None:
        """Check the lease on the timer's thread: the heartbeat may itself hang on a store that does not answer."""
        self.heartbeat.check()
        slack = self.heartbeat.slack
        self.deadlines.after(slack if slack > 0 else self.settings.lease * FENCE_MARGIN, self._watch_lease)

    def _is_leased(self) -> bool:
        """Return True if the lease is valid; checked before each handler. Otherwise the worker is fenced."""
        if self.heartbeat.slack > 0:
            return True
        self.heartbeat.check()
        return False

    def _new_heartbeat(self) -> Heartbeat:
        return self._heartbeats(self._store, self.id, self.settings.lease, self, self._clock, self.health.examine)

    # -- background tasks

    async def _register(self) -> float:
        """Register the worker; return when the successful try started."""
        spec = introduction(self.id, self.settings, self.routes.queues, self._tasks)
        return await write_until_stored(self._store, Op(lambda tx: workers.register(tx, spec)), self._clock)

    async def _listen_for_cancels(self) -> None:
        listener = self._store.bell.listen(["cancel"])
        try:
            while True:
                if await listener.await_ring(60.0) and self.runner.runs:
                    await self._check_own_jobs()
                    await asyncio.sleep(_BETWEEN_CHECKS)
        finally:
            listener.close()

    async def _check_own_jobs(self) -> None:
        """Stop runs that were cancelled or taken away. Only reads: a heartbeat here would wake all other workers."""
        asked_at = self._clock.monotonic()
        try:
            owned = await self._store.aread(Op(lambda tx: workers.owned_jobs(tx, self.id)))
            self.runner.stop_lost_and_cancelled(owned, asked_at)
            if not owned:
                # Every job was taken away: a heartbeat finds out whether the worker was declared lost.
                self.heartbeat.beat_now()
        except HoldfastError as error:
            if not self._store.outage.covers("the check for cancelled jobs", error):
                logger.warning("could not check for cancelled jobs (%s); the next heartbeat will", error)

    async def _try(self, op: Op[Any]) -> bool:
        try:
            await self._store.awrite(op)
        except Exception as error:
            if not self._store.outage.covers("the worker's deregistration", error):
                logger.error("the store failed while the worker left (%s: %s)", type(error).__name__, error)
            return False
        return True

    def _start_watchdog(self) -> Watchdog | None:
        if not self.settings.block_warning:
            return None
        watchdog = Watchdog(
            warn_after=self.settings.block_warning,
            give_up_after=max(self.settings.lease * _LEASES_UNTIL_STUCK, self.settings.block_warning),
            on_dead=self._on_stuck or (lambda: self.heartbeat.stop()),
        )
        watchdog.start()
        return watchdog
