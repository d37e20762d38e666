"""Runs the jobs that are due now, with a worker's parts but without its loops. For tests and scripts.

It keeps its lease but rescues no jobs, and time passes only as the app's clock does, so a test controls the retries.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..clock import SYSTEM_CLOCK, Clock
from ..errors import ConfigError
from ..ids import token
from ..model.jobs import Claimed
from ..model.limits import ActiveLimits
from ..model.outcomes import Cancelled, Done, Expired, Failed, Finish, Lost, Outcome, Parked, Suspended
from ..model.webhooks import QUEUE
from ..storage.ops.flows import dependency_resolution
from ..storage.ops.jobs import deadlines, queries
from ..storage.ops.jobs.claims import Turn
from ..storage.ops.routing.grants import expire_grants
from ..storage.ops.routing.routes import special_routes
from ..storage.ops.signals import waking
from ..storage.ops.workers import workers
from ..storage.ops.workers.lookout import look
from ..storage.port import Op, Store
from ..tasks.task import Task
from ..worker.claiming.claimer import Claimer
from ..worker.claiming.routes import ServedRoutes
from ..worker.claiming.target import Capacity, ClaimTarget
from ..worker.drain_lease import DrainLease
from ..worker.maintenance.flow_resolver import Resolver
from ..worker.maintenance.webhook_fanout import pass_on
from ..worker.outbox.relays import Relays
from ..worker.processes.pool import ChildPool
from ..worker.registration import capabilities, introduction, served_queues, versions
from ..worker.running.admission import AdmissionCheck
from ..worker.running.deadlines import DeadlineTimer
from ..worker.running.executor import Executor
from ..worker.running.inputs import Inputs
from ..worker.running.outcome import OutcomeRules
from ..worker.running.runner import JobRunner
from ..worker.running.runs import Run
from ..worker.running.threads import ThreadPool
from ..worker.settings import WorkerSettings

if TYPE_CHECKING:
    from ..app import App

T = TypeVar("T")

logger: Final = logging.getLogger("holdfast.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Number of runs by outcome."""

    succeeded: int = 0
    again: int = 0
    """Runs to be repeated: a retry, a snooze, a throttle."""
    suspended: int = 0
    """Runs that wait for a signal, or for other jobs."""
    failed: int = 0
    """Runs that failed permanently."""
    parked: int = 0
    cancelled: int = 0
    expired: int = 0

    @property
    def runs(self) -> int:
        """Number of all runs. A job that was retried at once counts once for each run."""
        ended = self.succeeded + self.failed + self.cancelled + self.expired
        return ended + self.again + self.suspended + self.parked


async def drain_store(
    app: App, settings: WorkerSettings, tasks: Mapping[str, Task[Any, Any]], *, until_empty: bool
) -> Drained:
    """Run every due job of the settings' queues until nothing is due, or only as many as are due now."""
    drainer = _Drainer(app, app.open(), settings, tasks, app._clock or SYSTEM_CLOCK)
    for limit in app.declared_limits():
        await app.open().awrite(limit)
    if not until_empty:
        await drainer.limit()
    await drainer.lease.begin()
    try:
        await drainer.work()
    finally:
        await drainer.leave()
    return Drained(**drainer.ends)


def run_blocking(work: Coroutine[Any, Any, T], *, instead: str) -> T:
    """Run on an event loop of its own; refused where one runs already."""
    if _loop_runs_here():
        work.close()
        raise ConfigError(f"an event loop runs here, which this call would block; {instead} instead")
    return asyncio.run(work)


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _CountingClaimer(Claimer):
    """A claimer that counts outcomes, except those that the store refuses because they come too late."""

    def __init__(self, store: Store, target: ClaimTarget, clock: Clock, *, slots: int, patience: float) -> None:
        super().__init__(store, target, clock, slots=slots, patience=patience)
        self.ends: Final = Counter[str]()
        self._ended: set[tuple[str, int]] = set()
        self.held_back = False
        """True if a limit or a budget has made a job wait for the end of others."""

    def finished(self, run: Run, outcome: Outcome) -> None:
        self._ended.add((run.job.id, run.job.epoch))
        super().finished(run, outcome)

    def _read(self, finishes: list[Finish], turn: Turn) -> None:
        super()._read(finishes, turn)
        self.held_back |= turn.parked > 0
        for finish, verdict in zip(finishes, turn.verdicts, strict=True):
            key, label = (finish.id, finish.epoch), _label(finish.outcome)
            self.held_back |= label == "parked"
            self.ends[label] += key in self._ended and not isinstance(verdict, Lost)
            self._ended.discard(key)


class _Drainer:
    """A worker without loops. It is between the claimer and the runner to count the jobs claimed."""

    def __init__(
        self,
        app: App,
        store: Store,
        settings: WorkerSettings,
        tasks: Mapping[str, Task[Any, Any]],
        clock: Clock,
    ) -> None:
        self._store = store
        self._settings = settings
        self._limit: int | None = None
        self._tasks = tasks
        self._routes = ServedRoutes(
            served_queues(settings, tasks),
            capabilities(settings, tasks),
            strict=bool(settings.queues),
            versions=versions(tasks),
        )
        self._deadlines = DeadlineTimer(clock)
        self._threads = ThreadPool(settings.concurrency)
        self._children = ChildPool(settings.concurrency)
        self._runner = JobRunner(token(), settings, tasks, self._routes, self._deadlines, self._threads, clock)
        self._claimer = self._runner.claimer = _CountingClaimer(
            store, self, clock, slots=settings.concurrency, patience=settings.lease / 2
        )
        self.ends: Final = self._claimer.ends
        self.lease: Final = DrainLease(store, self._runner, settings.lease, clock, self._register)
        self._relays = Relays(store, self._runner, settings, tasks, clock, app._u, lambda _: True)
        self._runner.aside = self._relays
        self._resolver = Resolver(store)
        outcome_rules = OutcomeRules(clock, app._u)
        self._runner.executor = Executor(
            app,
            outcome_rules,
            self._threads,
            self._children,
            self._runner.finished,
            app._middleware,
            inputs=Inputs(store),
            doorkeeper=AdmissionCheck(store, app._u, store.outage),
        )

    async def limit(self) -> None:
        """Claim no more jobs than are due now."""
        counts = await self._store.aread(Op(queries.count_jobs))
        self._limit = sum(c.jobs for c in counts if c.state == "ready" and c.queue in self._routes.queues)

    async def _register(self) -> None:
        spec = introduction(self.id, self._settings, self._routes.queues, self._tasks)
        await self._store.awrite(Op(lambda tx: workers.register(tx, spec)))

    async def work(self) -> None:
        """Record and claim until there is nothing to record or claim and nothing runs."""
        await self._store.awrite(Op(deadlines.expire_jobs))
        await self._store.awrite(Op(waking.wake_due))
        while True:
            self._claimer.wake.clear()
            await self.lease.keep()
            await self._look()
            self._claimer.may_have_work = True
            ended = self._claimer.pending
            await self._claimer.run_once()
            if ended and (self._claimer.held_back or not self._runner.runs):
                # Their limits and budgets may admit other jobs now, which that claim did not get yet.
                continue
            # Behind jobs that a limit holds back there may be others that it does not.
            may_have_more = self._claimer.may_have_work and self.room() is not None
            if self._is_idle() and not may_have_more and not self._runner.fenced and not await self._do_more():
                return
            if self._runner.runs or self._runner.fenced:
                await self._claimer.wake.wait()

    async def _do_more(self) -> bool:
        """Do the work beside running jobs; return True if there was some, so that jobs may be due again."""
        return await self._resolve_flows() or await self._fan_out() or await self._send()

    async def _fan_out(self) -> bool:
        """Create webhook deliveries, if they are sent from here; return True if there were some."""
        return QUEUE in self._routes.queues and bool(await pass_on(self._store))

    async def _send(self) -> bool:
        """Deliver what is due in the outboxes; return True if there was something."""
        outcomes = await self._relays.drain()
        self.ends.update(map(_label, outcomes))
        return bool(outcomes)

    async def _resolve_flows(self) -> bool:
        """Do what finished members trigger in their flows; return True if there was something."""
        left = await self._store.aread(Op(dependency_resolution.left, single=True))
        while left.any_but_callbacks and await self._resolver.run_once() is not None:
            pass
        return left.any_but_callbacks

    async def leave(self) -> None:
        """Hand back the jobs that an interrupted drain left unfinished, and deregister."""
        self._runner.closing = True
        self._runner.stop_all("shutdown")
        try:
            async with asyncio.timeout(self._settings.cancel_grace):
                while not self._is_idle():
                    self._claimer.wake.clear()
                    if not await self._claimer.run_once():
                        await self._claimer.wake.wait()
            # A heartbeat after deregistration would report the worker as lost.
            await self.lease.end()
            await self._store.awrite(Op(lambda tx: workers.deregister(tx, self.id)))
        except TimeoutError:
            logger.error("%d jobs did not end when the drain was interrupted", len(self._runner.runs))
        finally:
            self._deadlines.close()
            self._threads.close()
            self._relays.close()
            await self.lease.end()
            await self._children.close()

    def _is_idle(self) -> bool:
        return not self._runner.runs and not self._claimer.pending

    async def _look(self) -> None:
        self._routes.learn(await self._store.aread(Op(special_routes)))
        me, served = self._runner.id, self._routes.numbers
        view = await self._store.aread(Op(lambda tx: look(tx, me, served)))
        if view.grants_over:
            await self._store.awrite(Op(expire_grants))
            self._routes.learn(await self._store.aread(Op(special_routes)))
        self._runner.standing, self._runner.shares = view.standing, view.shares
        self._runner.defaults.learn(view.queues)
        self._runner.suspects_wait = view.suspects_wait

    # -- the claim target

    @property
    def id(self) -> str:
        return self._runner.id

    @property
    def standing(self) -> ActiveLimits:
        return self._runner.standing

    def room(self) -> Capacity | None:
        room = self._runner.room()
        if room is not None and self._limit is not None:
            room.n = min(room.n, self._limit)
        return room if room is not None and room.n > 0 else None

    def dispatch(self, jobs: Sequence[Claimed], claim: str) -> None:
        if self._limit is not None:
            self._limit -= len(jobs)
        self._runner.dispatch(jobs, claim)

    def others_wait(self, they_do: bool) -> None:
        self._runner.others_wait(they_do)


def _label(outcome: Outcome) -> str:
    match outcome:
        case Done():
            return "succeeded"
        case Failed():
            return "failed"
        case Suspended():
            return "suspended"
        case Parked():
            return "parked"
        case Cancelled():
            return "cancelled"
        case Expired():
            return "expired"
        case _:
            return "again"
