"""Maintenance loops of a worker: some run in every worker, some only in the leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from ...clock import SECOND, Clock
from ...storage.ops.jobs import finishing
from ...storage.ops.limits import lanes, rates
from ...storage.ops.remote import overdue
from ...storage.ops.signals import waking
from ...storage.port import Op, Store
from ..claiming.remote import Tasks, end_overdue
from ..outbox.relays import roles_of
from ..settings import WorkerSettings
from .artifact_gc import ArtifactCollector
from .budget_releaser import BudgetReleaser
from .flow_resolver import Resolver
from .leader import ROLES, Leader
from .pruner import Pruner
from .queue_totals import QueueTotals
from .rescuer import Rescuer
from .scheduler import ROLE as SCHEDULES
from .scheduler import Scheduler
from .service import Pace, Service, Work, spread
from .stats_roller import StatsRoller
from .undeclared import UndeclaredLimits
from .webhook_fanout import ROLE as WEBHOOKS
from .webhook_fanout import Fanout

_UPKEEP: Final = "upkeep"
# Workers that do not lead check this many times less often. With 5, fifty idle workers made 28 queries a second.
_SELDOM: Final = 15
logger: Final = logging.getLogger("holdfast.worker")

# Rows that another worker has locked are skipped; retry them soon.
_AGAIN: Final = 0.05


class Services:
    """`own_id` returns the worker's current id; `steady_for` the seconds since its last late renewal."""

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        own_id: Callable[[], str],
        steady_for: Callable[[], float],
        clock: Clock,
        random: Callable[[], float],
        tasks: Tasks,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._settings = settings
        self._random = random
        rescue = settings.lease / 3 if settings.rescue_interval is None else settings.rescue_interval
        self.rescuer: Final = Rescuer(store, own_id, steady_for, random, clock, interval=rescue)
        self.leader: Final = Leader(store, own_id, clock, (*ROLES, *roles_of(tasks)))
        leads = self.leader.holds
        self.scheduler: Final = Scheduler(
            store, partial(leads, SCHEDULES), clock, longest_rest=settings.schedule_interval
        )
        self.queue_totals: Final = QueueTotals(store, partial(leads, "totals"))
        self.pruner: Final = Pruner(store, settings, partial(leads, "retention"), asyncio.sleep)
        self.artifact_gc: Final = ArtifactCollector(store, partial(leads, "retention"))
        self.stats_roller: Final = StatsRoller(store, partial(leads, "numbers"), clock)
        self.resolver: Final = Resolver(store)
        self.budget_releaser: Final = BudgetReleaser(store)
        self.timeout_waker: Final = TimeoutWaker(store, settings.wake_interval)
        self.undeclared: Final = UndeclaredLimits(store, tasks)
        self.fanout: Final = Fanout(store, partial(leads, WEBHOOKS), clock)

    def start(self) -> list[Awaitable[None]]:
        """Return the loops to run until the worker stops."""
        its = self._settings
        scheduling = self._service("scheduler", self.scheduler.run_once, its.schedule_interval)
        self.leader.on_gain(SCHEDULES, scheduling.wake)
        leading = self._service("leader", self.leader.run_once, its.lead_interval)
        resolving = self._led("resolver", self.resolver.run_once, its.resolve_interval)
        fanning_out = self._service("fanout", self.fanout.run_once, its.webhook_interval)
        self.leader.on_gain(WEBHOOKS, fanning_out.wake)
        services = [
            self._service("rescuer", self.rescuer.run_once, self.rescuer.interval),
            self._led("expirer", self.expire, its.expire_interval),
            self._led("lease_deadlines", self.end_overdue_leases, its.expire_interval),
            self._led("unparker", self.unpark, its.unpark_interval),
            leading,
            self._service("queue_totals", self.queue_totals.run_once, its.split_interval),
            self._service("pruner", self.pruner.run_once, its.prune_interval),
            self._service("artifact_gc", self.artifact_gc.run_once, its.sweep_interval),
            self._service("stats_roller", self.stats_roller.run_once, its.meter_interval),
            self._led("budget_releaser", self.budget_releaser.run_once, its.budget_interval),
            self._led("timeout_waker", self.timeout_waker.run_once, its.wake_interval),
            scheduling,
            resolving,
            fanning_out,
        ]
        listening = [
            self.leader.listen(leading.wake),
            self.scheduler.listen(scheduling.wake),
            self.resolver.listen(resolving.wake),
            self.fanout.listen(fanning_out.wake),
        ]
        return [*listening, *(service.run() for service in services)]

    async def expire(self) -> float | None:
        """End the jobs whose deadline has passed and that no worker runs."""
        # Read first: a needless write would take the lock of a SQLite file from other writers.
        if not await self._store.aread(Op(finishing.is_overdue, single=True)):
            return None
        ended = await self._store.awrite(Op(finishing.expire_jobs))
        return None if len(ended) < finishing.EXPIRED_PAGE else 0.0

    async def end_overdue_leases(self) -> None:
        """End the runs of remote workers that exceed their timeout, their deadline or a cancel's grace period."""
        grace = round(self._settings.cancel_grace * SECOND)
        runs = await self._store.aread(Op(lambda tx: overdue(tx, grace), single=True))
        if runs:
            await self._store.awrite(Op(lambda tx: end_overdue(tx, runs, self._tasks, self._random())))

    async def unpark(self) -> None:
        """Release jobs parked in lanes that have room, and remove the rates of unused keys."""
        if await self._store.aread(Op(lanes.anyone_parked, single=True)):
            await self._store.awrite(Op(lanes.unpark_stalled))
            await self.undeclared.check_jobs()
        if await self._store.aread(Op(rates.is_idle, single=True)):
            await self._store.awrite(Op(rates.prune_idle))

    def _led(self, name: str, work: Work, interval: float) -> Service:
        """Make a service that the leader runs at every interval, and other workers less often, in case none leads."""

        async def work_and_rest() -> float | None:
            rest = await work()
            if rest == 0.0 or self.leader.holds(_UPKEEP):
                return rest
            return spread(interval * _SELDOM, service.pace.jitter, self._random())

        service = self._service(name, work_and_rest, interval)
        self.leader.on_gain(_UPKEEP, service.wake)
        return service

    def _service(self, name: str, work: Callable[[], Any], interval: float) -> Service:
        return Service(name, work, Pace(interval=interval), random=self._random, outage=self._store.outage)


class TimeoutWaker:
    """Ends timed-out waits of suspended jobs. `longest_rest` is in seconds."""

    def __init__(self, store: Store, longest_rest: float) -> None:
        self._store = store
        self._longest_rest = longest_rest

    async def run_once(self) -> float | None:
        """End the waits that are due; return the seconds until the next check."""
        rest = await self._rest()
        if rest is None or rest > 0:
            return rest
        # Only now a write, which on SQLite takes the lock from other writers.
        looked_at = await self._store.awrite(Op(waking.wake_due))
        return 0.0 if looked_at >= waking.PAGE else _AGAIN

    async def _rest(self) -> float | None:
        left = await self._store.aread(Op(waking.next_wake, single=True))
        return None if left is None or left / SECOND > self._longest_rest else max(0.0, left / SECOND)
