"""The worker of one process: it registers, claims, runs and records jobs, and deregisters."""

from __future__ import annotations

import asyncio
import logging
import random as _random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ..clock import SYSTEM_CLOCK, Clock, SystemClock
from ..errors import HoldfastError
from ..ids import token
from ..storage.ops.workers import workers
from ..storage.port import Op, Store
from ..tasks.middleware import Middleware
from ..tasks.resources import ResourceHost
from ..tasks.task import Task
from ..telemetry import RunTally
from .claiming.claimer import Claimer
from .claiming.outcomes import OutcomeQueue
from .claiming.poller import WorkPoller
from .lease import Heartbeat, LeaseKeeper
from .maintenance.health import HealthSampler
from .maintenance.services import Services
from .outbox.relays import Relays
from .processes.pool import ChildPool
from .registration import introduction, served_routes, worth_telling, write_until_stored
from .running.admission import AdmissionCheck
from .running.deadlines import DeadlineTimer
from .running.executor import Executor, Finished
from .running.inputs import Inputs
from .running.outcome import OutcomeRules
from .running.runner import JobRunner
from .running.threads import ThreadPool
from .running.watchdog import Watchdog
from .settings import WorkerSettings
from .state import WorkerState

logger: Final = logging.getLogger("holdfast.worker")

_LEASES_UNTIL_STUCK: Final = 4
# On SQLite every commit of another process may have cancelled something here.
_BETWEEN_CHECKS: Final = 0.1


class Worker:
    """Create, start and stop it on one event loop. A drain uses the same parts without their loops."""

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
        on_broken: Callable[[], object] = lambda: None,
        outcomes: OutcomeQueue | None = None,
        drains: bool = False,
        limit: int | None = None,
        heartbeats: type[Heartbeat] = Heartbeat,
        timekeepers: type[DeadlineTimer] = DeadlineTimer,
    ) -> None:
        """`drains` is for a drain, which stops when nothing due is left, or after `limit` jobs.

        It does not wait for a store that is down, and keeps its lease by a test's clock if it has one. `heartbeats` and
        `timekeepers` run on threads; a simulation on one thread replaces them.
        """
        self.settings: Final = settings
        self._store = store
        self._tasks = tasks
        self._clock = clock
        self._random = random
        self._on_stuck = on_stuck
        self._declarations = declarations
        self._drains = drains
        self._recorders: list[asyncio.Future[None]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._watchdog: Watchdog | None = None
        self._threads = ThreadPool(settings.concurrency)
        self._children = ChildPool(settings.concurrency)
        self._tally: RunTally = getattr(app, "tally", None) or RunTally()
        self.resources: Final = ResourceHost.here(app)
        self.background: Final = BackgroundTasks(on_broken)
        self.state: Final = WorkerState(identity or token())
        self.outcomes: Final = outcomes or OutcomeQueue()
        self.deadlines: Final = timekeepers(clock)
        self.routes: Final = served_routes(settings, tasks, random)
        self.services: Final = Services(
            store, settings, lambda: self.id, lambda: self.lease.steady_for, clock, random, tasks
        )
        self.relays: Final = self._make_relays()
        self.runner: Final = self._make_runner(partial(self._make_executor, app, middleware), limit)
        self.claimer: Final = Claimer(
            store,
            self.state,
            self.outcomes,
            self.runner,
            clock,
            slots=settings.concurrency,
            patience=settings.lease / 2,
        )
        self.poller: Final = WorkPoller(
            store, self.state, self.routes, self.outcomes, self.runner.has_room, poll=settings.poll, random=random
        )
        self.health: Final = HealthSampler(clock, self.claimer.claim_times, lambda: store.writes_waiting)
        self.lease: Final = self._make_lease(heartbeats)

    def _make_relays(self) -> Relays:
        return Relays(
            self._store,
            self.state,
            self.settings,
            self._tasks,
            self._clock,
            self._random,
            leads=self.services.leader.holds,
            in_flight=self.outcomes.in_flight,
            tally=self._tally,
            on_idle=self._idle.set,
        )

    def _make_runner(self, executor: Callable[[Finished], Executor], limit: int | None) -> JobRunner:
        return JobRunner(
            self.state,
            self.settings,
            self._tasks,
            self.routes,
            self.outcomes,
            self.deadlines,
            self._threads,
            clock=self._clock,
            executor=executor,
            batched=self.relays,
            tally=self._tally,
            on_idle=self._idle.set,
            limit=limit,
            waits=not self._drains,
        )

    def _make_executor(self, app: Any, middleware: Sequence[Middleware], finished: Finished) -> Executor:
        return Executor(
            app,
            OutcomeRules(self._clock, self._random),
            self._threads,
            self._children,
            finished,
            middleware,
            inputs=Inputs(self._store),
            admission=AdmissionCheck(self._store, self._random, self._store.outage),
            resources=self.resources,
            is_leased=lambda: self.lease.is_valid(),
        )

    def _make_lease(self, heartbeats: type[Heartbeat]) -> LeaseKeeper:
        return LeaseKeeper(
            self._store,
            self.state,
            self.settings.lease,
            self._clock,
            runner=self.runner,
            outcomes=self.outcomes,
            register=self._register,
            resume=self._resume,
            send=self.background.send,
            examine=self.health.examine,
            heartbeats=heartbeats,
            on_thread=not self._drains or isinstance(self._clock, SystemClock),
        )

    @property
    def id(self) -> str:
        return self.state.id

    # -- life

    async def start(self) -> None:
        """Register and start working. Waits for ever for a store that is down."""
        await self.resources.abegin()
        try:
            await self._start()
        except BaseException:
            await self.resources.aclose(self.settings.grace)
            raise

    async def _start(self) -> None:
        self.poller.listen()
        for declaration in self._declarations:
            await write_until_stored(self._store, declaration, self._clock)
        await self.lease.begin()
        await self.poller.look()
        self._watch_lease()
        self._watchdog = self._start_watchdog()
        beside = (self.poller.run(lambda: self.state.leaving), self._listen_for_cancels(), *self.services.start())
        self._recorders = self.background.send(self.claimer.run(self._is_over), self.relays.run())
        self.background.send(*beside, self.services.undeclared.check_tasks())
        queues = ", ".join((*worth_telling(self.routes.queues), *(relay.queue for relay in self.relays.all)))
        logger.info("worker %s serves %s with %d slots", self.id, queues, self.settings.concurrency)

    async def stop(self, grace: float | None = None) -> None:
        """Stop claiming, let running jobs finish within the grace period, hand the rest back, and deregister."""
        self.state.leaving = self.state.closing = True
        try:
            self.runner.hand_back_unbegun()
            await self._try(Op(lambda tx: workers.stop(tx, self.id)))
            await self._finish_runs(self.settings.grace if grace is None else grace)
            await self._flush()
            # A heartbeat after deregistration would report the worker as lost.
            await self.lease.end()
            if not await self._try(Op(lambda tx: workers.deregister(tx, self.id))):
                logger.warning("the store does not know that this worker has left; its lease will run out instead")
            await self.services.leader.resign()
        finally:
            await self.close()

    async def _finish_runs(self, grace: float) -> None:
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
        self.outcomes.wake.set()
        self.relays.request_claim()
        try:
            async with asyncio.timeout(self.settings.lease):
                await asyncio.wait(self._recorders)
        except TimeoutError:
            logger.error("%d outcomes could not be recorded; those jobs will run again", self.outcomes.pending)

    async def close(self) -> None:
        """Release every part, whatever still runs."""
        self.lease.heartbeat.stop()
        self.background.cancel()
        self.poller.close()
        if self._watchdog is not None:
            self._watchdog.stop()
        self.deadlines.close()
        self._threads.close()
        await self.background.until_over()
        self.relays.close()
        await self._children.close()
        await self.resources.aclose(self.settings.grace)

    @property
    def is_worn_out(self) -> bool:
        """True if so many threads hang that it claims nothing any more; it should be restarted."""
        return self._threads.exhausted

    @property
    def is_idle(self) -> bool:
        """True if nothing runs and every outcome is recorded."""
        return not self.runner.runs and not self.outcomes.pending

    def _is_over(self) -> bool:
        return self.state.leaving and self.is_idle

    def _resume(self) -> None:
        """Claim again after a fence."""
        self.outcomes.request_claim()
        self.relays.request_claim()

    # -- background tasks

    async def _register(self) -> float:
        """Register the worker; return when the successful try started."""
        spec = introduction(self.id, self.settings, self.routes.queues, self._tasks)
        op = Op(lambda tx: workers.register(tx, spec))
        if not self._drains:
            return await write_until_stored(self._store, op, self._clock)
        asked_at = self._clock.monotonic()
        await self._store.awrite(op)
        return asked_at

    def _watch_lease(self) -> None:
        """Check the lease on the timer's thread: the heartbeat may itself hang on a store that does not answer."""
        self.deadlines.after(self.lease.check(), self._watch_lease)

    async def _listen_for_cancels(self) -> None:
        listener = self._store.wakeups.listen(["cancel"])
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
                self.lease.heartbeat.beat_now()
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
            on_dead=self._on_stuck or (lambda: self.lease.heartbeat.stop()),
        )
        watchdog.start()
        return watchdog


class BackgroundTasks:
    """Background tasks of a worker, which run until it stops. Create and use it on the loop's thread."""

    def __init__(self, on_broken: Callable[[], object] = lambda: None) -> None:
        """`on_broken` is called when a task has crashed."""
        self.error: BaseException | None = None
        """Error of the task that has crashed: the worker must be restarted."""
        self._on_broken = on_broken
        self._under_way: list[asyncio.Future[None]] = []

    def send(self, *works: Awaitable[None]) -> list[asyncio.Future[None]]:
        """Start them."""
        sent: list[asyncio.Future[None]] = [asyncio.ensure_future(work) for work in works]
        for task in sent:
            task.add_done_callback(self._returned)
        self._under_way += sent
        return sent

    def cancel(self) -> None:
        for task in self._under_way:
            task.cancel()

    async def until_over(self) -> None:
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _returned(self, task: asyncio.Future[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        # The heartbeat continues, so other workers cannot see that this task no longer runs.
        logger.critical("a worker task crashed; restart the worker", exc_info=error)
        self.error = error
        self._on_broken()
