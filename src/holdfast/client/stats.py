"""Numbers: `app.stats` and `app.errors`. Each method has an awaiting twin."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ..clock import SYSTEM_CLOCK
from ..draining import run_blocking
from ..engine.meter import Meter
from ..errors import InvalidInput
from ..model.stats import (
    COUNTERS,
    LATENCIES,
    MINUTE,
    ErrorGroup,
    HealthPoint,
    LimitStats,
    MetricPoint,
    OperationStats,
    QueueStats,
    StoreStats,
    TaskStats,
    WorkerStats,
)  # fmt: skip
from ..names import check_queue
from ..storage.disk import log_bytes
from ..storage.ops import errors, insight, leadership, rollup, stats
from ..storage.port import Op, Store, Tx
from .failures import FailedRuns

MOST_MINUTES: Final = 2_000
"""What one call reads of a series; further back by `before`."""
MOST_AT_A_GLANCE: Final = 240
"""Minutes that are read of all queues at once."""
MOST_OF_TASKS: Final = 1_440
"""Minutes that are read of all tasks at once: a day."""
_MOST_POINTS: Final = 50_000
_MOST_ERRORS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What a queue did in the last closed minutes."""

    queue: str
    minutes: int
    counts: dict[str, int]
    """In all of them, by counter."""
    latencies: dict[str, MetricPoint]
    """The worst minute's, by the 99th percentile: percentiles of several minutes cannot be put together."""

    def per_minute(self, counter: str) -> float:
        return self.counts.get(counter, 0) / self.minutes


class Stats:
    """How the queues, workers and the store of one app fare."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def queues(self) -> builtins.list[QueueStats]:
        """Every queue now: counts by label, the oldest due job, slots in use."""
        return self._store().read(Op(stats.queues))

    async def aqueues(self) -> builtins.list[QueueStats]:
        return await self._store().aread(Op(stats.queues))

    def queue(self, name: str) -> QueueStats:
        """One queue now; one that nobody has heard of is empty."""
        return _pick(self.queues(), check_queue(name))

    async def aqueue(self, name: str) -> QueueStats:
        return _pick(await self.aqueues(), check_queue(name))

    def throughput(self, minutes: int = 5) -> builtins.list[Throughput]:
        """What each queue did in the last closed minutes, up to 240."""
        return self._store().read(_throughput(minutes))

    async def athroughput(self, minutes: int = 5) -> builtins.list[Throughput]:
        return await self._store().aread(_throughput(minutes))

    def tasks(self, minutes: int = 60) -> builtins.list[TaskStats]:
        """What each task did in the last closed minutes, up to 1,440 (a day), by name."""
        return self._store().read(_tasks(minutes))

    async def atasks(self, minutes: int = 60) -> builtins.list[TaskStats]:
        return await self._store().aread(_tasks(minutes))

    def timeline(self, minutes: int = 60) -> builtins.list[MetricPoint]:
        """Every metric of every queue in the last closed minutes, up to 240, oldest first. For charts."""
        return self._store().read(_timeline(minutes))

    async def atimeline(self, minutes: int = 60) -> builtins.list[MetricPoint]:
        return await self._store().aread(_timeline(minutes))

    def series(
        self, queue: str, metric: str, minutes: int = 60, *, before: int | None = None
    ) -> builtins.list[MetricPoint]:
        """One metric of one queue, minute by minute, oldest first; minutes in which nothing happened are left out.

        `before` is an instant in microseconds, such as the first minute of the last answer, to page back.
        """
        return self._store().read(_series(queue, metric, minutes, before))

    async def aseries(
        self, queue: str, metric: str, minutes: int = 60, *, before: int | None = None
    ) -> builtins.list[MetricPoint]:
        return await self._store().aread(_series(queue, metric, minutes, before))

    def health(self, minutes: int = 60, *, before: int | None = None) -> builtins.list[HealthPoint]:
        """Return the health of the worker processes and of the database, minute by minute, oldest first.

        `before` is an instant in microseconds, to page back. Minutes without a worker are left out.
        """
        return self._store().read(_health(minutes, before))

    async def ahealth(self, minutes: int = 60, *, before: int | None = None) -> builtins.list[HealthPoint]:
        return await self._store().aread(_health(minutes, before))

    def limits(self) -> builtins.list[LimitStats]:
        """Every limit and how much of it is in use, the most saturated first."""
        return self._store().read(Op(stats.limits))

    async def alimits(self) -> builtins.list[LimitStats]:
        return await self._store().aread(Op(stats.limits))

    def workers(self) -> builtins.list[WorkerStats]:
        """Every registered worker, whether it lives, and how its process fares."""
        return self._store().read(Op(stats.workers))

    async def aworkers(self) -> builtins.list[WorkerStats]:
        return await self._store().aread(Op(stats.workers))

    def store(self) -> StoreStats:
        """The database's health: its size, what could be cleaned, how long claims take."""
        store = self._store()
        return _with_wal(*store.read(Op(lambda tx: stats.store(tx, store.backend))))

    async def astore(self) -> StoreStats:
        store = self._store()
        return _with_wal(*await store.aread(Op(lambda tx: stats.store(tx, store.backend))))

    def operations(self) -> builtins.list[OperationStats]:
        """How long each operation of the store took in this process since the store was opened. Reads no database."""
        return self._store().timings.read()

    def leaders(self) -> dict[str, str]:
        """Who does what one worker is enough for: the worker's id by role, as long as its lease holds."""
        return self._store().read(Op(leadership.leaders))

    async def aleaders(self) -> dict[str, str]:
        return await self._store().aread(Op(leadership.leaders))

    def probe(self) -> None:
        """Take the store's write lock once and change nothing; raises what stands in the way of a write."""
        self._store().write(Op(insight.clock, single=True))

    async def aprobe(self) -> None:
        """The awaiting twin of `probe`."""
        await self._store().awrite(Op(insight.clock, single=True))

    def roll(self) -> None:
        """Roll the minutes that have closed, as workers do by themselves. For tests and scripts that `drain`."""
        run_blocking(self.aroll(), instead="await aroll()")

    async def aroll(self) -> None:
        """The awaiting twin of `roll`."""
        meter = Meter(self._store(), lambda: True, SYSTEM_CLOCK)
        while await meter.run_once() is not None:
            pass


class Errors(FailedRuns):
    """What went wrong, by kind: same task, same exception, same way through the code."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def list(self, *, task: str | None = None, since: int | None = None, limit: int = 50) -> builtins.list[ErrorGroup]:
        """The kinds, the last seen first. `since` is an instant in microseconds."""
        return self._store().read(_errors(task, since, limit))

    async def alist(
        self, *, task: str | None = None, since: int | None = None, limit: int = 50
    ) -> builtins.list[ErrorGroup]:
        return await self._store().aread(_errors(task, since, limit))

    def show(self, fingerprint: str) -> ErrorGroup:
        """One kind, with the traceback of its newest."""
        return self._store().read(Op(lambda tx: errors.get_error(tx, fingerprint), single=True))

    async def ashow(self, fingerprint: str) -> ErrorGroup:
        return await self._store().aread(Op(lambda tx: errors.get_error(tx, fingerprint), single=True))


def _pick(found: list[QueueStats], name: str) -> QueueStats:
    return next((queue for queue in found if queue.name == name), None) or QueueStats(name=name)


def _throughput(minutes: int) -> Op[list[Throughput]]:
    _check_minutes(minutes, MOST_AT_A_GLANCE)

    async def run(tx: Tx) -> list[Throughput]:
        until = await _newest(tx)
        counted, worst = await rollup.totals(tx, until - minutes * MINUTE, until)
        queues = sorted({queue for queue, _ in counted} | {point.queue for point in worst})
        return [
            Throughput(
                queue=queue,
                minutes=minutes,
                counts={metric: count for (name, metric), count in counted.items() if name == queue},
                latencies={point.metric: point for point in worst if point.queue == queue},
            )
            for queue in queues
        ]

    return Op(run)


def _tasks(minutes: int) -> Op[list[TaskStats]]:
    _check_minutes(minutes, MOST_OF_TASKS)

    async def run(tx: Tx) -> list[TaskStats]:
        until = await _newest(tx)
        return await rollup.task_totals(tx, until - minutes * MINUTE, until)

    return Op(run)


def _timeline(minutes: int) -> Op[list[MetricPoint]]:
    _check_minutes(minutes, MOST_AT_A_GLANCE)

    async def run(tx: Tx) -> list[MetricPoint]:
        until = await _newest(tx)
        return await rollup.window(tx, until - minutes * MINUTE, until, _MOST_POINTS)

    return Op(run)


async def _newest(tx: Tx) -> int:
    """The end of the newest minute that is rolled."""
    return await rollup.rolled_to(tx) or await insight.clock(tx) // MINUTE * MINUTE


def _series(queue: str, metric: str, minutes: int, before: int | None) -> Op[list[MetricPoint]]:
    name = check_queue(queue)
    _check_minutes(minutes, MOST_MINUTES)
    if metric not in (*COUNTERS, *LATENCIES):
        raise InvalidInput(f"there is no metric {metric!r}; there are {', '.join((*COUNTERS, *LATENCIES))}")

    async def run(tx: Tx) -> list[MetricPoint]:
        until = before if before is not None else await insight.clock(tx)
        return await rollup.series(tx, name, metric, until - minutes * MINUTE, until)

    return Op(run)


def _health(minutes: int, before: int | None) -> Op[list[HealthPoint]]:
    _check_minutes(minutes, MOST_MINUTES)

    async def run(tx: Tx) -> list[HealthPoint]:
        until = before if before is not None else await insight.clock(tx)
        return await stats.health_history(tx, until - minutes * MINUTE, until)

    return Op(run)


def _errors(task: str | None, since: int | None, limit: int) -> Op[list[ErrorGroup]]:
    if not 1 <= limit <= _MOST_ERRORS:
        raise InvalidInput(f"limit is {limit}; use 1 to {_MOST_ERRORS:,}")
    return Op(lambda tx: errors.list_errors(tx, task=task, since=since, n=limit), single=True)


def _check_minutes(minutes: int, most: int) -> None:
    if not 1 <= minutes <= most:
        raise InvalidInput(f"minutes is {minutes}; use 1 to {most:,}")


def _with_wal(health: StoreStats, file: str | None) -> StoreStats:
    return health if file is None else replace(health, wal_bytes=log_bytes(file))
