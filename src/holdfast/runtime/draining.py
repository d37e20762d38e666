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

from ..clock import SYSTEM_CLOCK
from ..errors import ConfigError
from ..model.jobs import Claimed
from ..model.outcomes import Cancelled, Done, Expired, Failed, Finish, Lost, Outcome, Parked, Suspended
from ..model.webhooks import QUEUE
from ..storage.ops.flows import dependency_resolution
from ..storage.ops.jobs import finishing, queries
from ..storage.ops.jobs.claims import Turn
from ..storage.ops.signals import waking
from ..storage.ops.workers import workers
from ..storage.port import Op, Store
from ..tasks.task import Task
from ..worker.claiming.outcomes import OutcomeQueue
from ..worker.maintenance.webhook_fanout import pass_on
from ..worker.registration import served_queues
from ..worker.settings import WorkerSettings
from ..worker.worker import Worker

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
    store = app.open()
    for declaration in app.declared_limits():
        await store.awrite(declaration)
    outcomes = _CountedOutcomes()
    worker = Worker(
        store,
        tasks,
        settings,
        app=app,
        middleware=app._middleware,
        clock=app._clock or SYSTEM_CLOCK,
        random=app._u,
        on_broken=outcomes.wake.set,
        outcomes=outcomes,
        drains=True,
        limit=None if until_empty else await _count_ready(store, served_queues(settings, tasks)),
    )
    drain = _Drain(store, worker, outcomes)
    try:
        await worker.resources.abegin()
        await worker.lease.begin()
        try:
            await drain.work()
        finally:
            await drain.leave()
    finally:
        await worker.close()
    return Drained(**outcomes.ends)


async def _count_ready(store: Store, queues: Sequence[str]) -> int:
    counts = await store.aread(Op(queries.count_jobs))
    return sum(count.jobs for count in counts if count.state == "ready" and count.queue in queues)


def run_blocking(work: Coroutine[Any, Any, T], *, instead: str) -> T:
    """Run on an event loop of its own; refused where one runs already."""
    if _loop_runs_here():
        work.close()
        raise ConfigError(f"an event loop runs here, which this call would block; use: {instead}")
    return asyncio.run(work)


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _CountedOutcomes(OutcomeQueue):
    """Counts the outcomes of runs, except those that the store refuses because they come too late."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: Final = Counter[str]()
        self._ended: set[tuple[str, int]] = set()
        self.held_back = False
        """True if a limit or a budget has made a job wait for the end of others."""

    def finished(self, job: Claimed, outcome: Outcome) -> None:
        self._ended.add((job.id, job.epoch))
        super().finished(job, outcome)

    def recorded(self, finishes: Sequence[Finish], turn: Turn) -> None:
        super().recorded(finishes, turn)
        self.held_back |= turn.parked > 0
        for finish, verdict in zip(finishes, turn.verdicts, strict=True):
            key, label = (finish.id, finish.epoch), _label(finish.outcome)
            self.held_back |= label == "parked"
            self.ends[label] += key in self._ended and not isinstance(verdict, Lost)
            self._ended.discard(key)


class _Drain:
    """Does what a worker's loops do, step by step, until nothing due is left."""

    def __init__(self, store: Store, worker: Worker, outcomes: _CountedOutcomes) -> None:
        self._store = store
        self._worker = worker
        self._outcomes = outcomes

    async def work(self) -> None:
        """Record and claim until there is nothing to record or claim and nothing runs."""
        worker, outcomes = self._worker, self._outcomes
        await self._store.awrite(Op(finishing.expire_jobs))
        await self._store.awrite(Op(waking.wake_due))
        while worker.background.error is None:
            await worker.lease.keep()
            await worker.poller.update()
            outcomes.wake.clear()
            outcomes.expect_work()
            ended = outcomes.pending
            await worker.claimer.run_once()
            if ended and (outcomes.held_back or not worker.runner.runs):
                # Their limits and budgets may admit other jobs now, which that claim did not get yet.
                continue
            # Behind jobs that a limit holds back there may be others that it does not.
            may_have_more = outcomes.may_have_work and worker.runner.has_room()
            if worker.is_idle and not may_have_more and not worker.state.fenced and not await self._do_more():
                return
            if worker.runner.runs or worker.state.fenced:
                await outcomes.wake.wait()
        raise worker.background.error

    async def _do_more(self) -> bool:
        """Do the work beside running jobs; return True if there was some, so that jobs may be due again."""
        return await self._resolve_flows() or await self._fan_out() or await self._send()

    async def _resolve_flows(self) -> bool:
        """Do what finished members trigger in their flows; return True if there was something."""
        left = await self._store.aread(Op(dependency_resolution.left, single=True))
        while left.any_but_callbacks and await self._worker.services.resolver.run_once() is not None:
            pass
        return left.any_but_callbacks

    async def _fan_out(self) -> bool:
        """Create webhook deliveries, if they are sent from here; return True if there were some."""
        return QUEUE in self._worker.routes.queues and bool(await pass_on(self._store))

    async def _send(self) -> bool:
        """Deliver what is due in the outboxes; return True if there was something."""
        sent = await self._worker.relays.drain()
        self._outcomes.ends.update(map(_label, sent))
        return bool(sent)

    async def leave(self) -> None:
        """Hand back the jobs that an interrupted drain left unfinished, and deregister."""
        worker, wake = self._worker, self._outcomes.wake
        worker.state.leaving = worker.state.closing = True
        worker.runner.stop_all("shutdown")
        try:
            async with asyncio.timeout(worker.settings.cancel_grace):
                while not worker.is_idle:
                    wake.clear()
                    if not await worker.claimer.run_once():
                        await wake.wait()
            # A heartbeat after deregistration would report the worker as lost.
            await worker.lease.end()
            await self._store.awrite(Op(lambda tx: workers.deregister(tx, worker.id)))
        except TimeoutError:
            logger.error("%d jobs did not end when the drain was interrupted", len(worker.runner.runs))


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
