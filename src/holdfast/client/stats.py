"""Numbers: `app.stats` and `app.errors`. Each method has an async version."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from ..clock import SYSTEM_CLOCK
from ..errors import InvalidInput, NotFound
from ..model.stats import (
    COUNTERS,
    LATENCIES,
    MINUTE,
    ErrorGroup,
    ErrorWhole,
    FailedRun,
    HealthMinute,
    LimitStats,
    MetricPoint,
    OperationStats,
    QueueStats,
    StoreStats,
    TaskStats,
    Throughput,
    WorkerStats,
    WorstMinute,
)  # fmt: skip
from ..names import check_instant, check_name, check_queue
from ..rules.stats import fingerprint as kind_of
from ..runtime.draining import run_blocking
from ..storage.disk import log_bytes
from ..storage.ops.jobs import queries
from ..storage.ops.stats import errors, rollup, stats
from ..storage.ops.workers import workers
from ..storage.port import Op, Row, Store, Tx
from ..worker.maintenance.stats_roller import StatsRoller
from .calls import composed, reads
from .lines import Line

MOST_MINUTES: Final = 2_000
"""The most points of a series that one call reads; page back with `before`."""
MOST_AT_A_GLANCE: Final = 240
"""Minutes that are read of all queues at once."""
MOST_OF_TASKS: Final = 1_440
"""Minutes that are read of all tasks at once: a day."""
_MOST_POINTS: Final = 50_000
_MOST_ERRORS: Final = 1_000
MOST_RUNS: Final = 1_000
_REMEMBERED: Final = 20_000
_LOOKED_AT: Final = 2_000
"""The newest failed runs of a tenant that are grouped by kind."""


class Stats:
    """Statistics of an app's queues, workers and store."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    @reads
    def queues(self) -> Op[builtins.list[QueueStats]]:
        """Return the current state of every queue: counts by label, the oldest due job, slots in use."""
        return Op(stats.queues)

    aqueues = queues.awaiting

    @composed
    async def queue(self, line: Line, name: str) -> QueueStats:
        """Return the current state of one queue; an unknown one is empty."""
        return _pick(await line.read(Op(stats.queues)), check_queue(name))

    aqueue = queue.awaiting

    @reads
    def throughput(self, minutes: int = 5) -> Op[builtins.list[Throughput]]:
        """Return the work of each queue in the last closed minutes, up to 240."""
        _check_minutes(minutes, MOST_AT_A_GLANCE)

        async def run(tx: Tx) -> list[Throughput]:
            until = await _newest(tx)
            counted, worst = await rollup.totals(tx, until - minutes * MINUTE, until)
            queues = sorted({queue for queue, _ in counted} | {point.queue for point in worst})
            return [
                Throughput(
                    queue=queue,
                    per_minute={metric: n / minutes for (name, metric), n in sorted(counted.items()) if name == queue},
                    worst_minute={point.metric: _worst(point) for point in worst if point.queue == queue},
                )
                for queue in queues
            ]

        return Op(run)

    athroughput = throughput.awaiting

    @reads
    def tasks(self, minutes: int = 60) -> Op[builtins.list[TaskStats]]:
        """Return the work of each task in the last closed minutes, up to 1,440 (a day), by name."""
        _check_minutes(minutes, MOST_OF_TASKS)

        async def run(tx: Tx) -> list[TaskStats]:
            until = await _newest(tx)
            return await rollup.task_totals(tx, until - minutes * MINUTE, until)

        return Op(run)

    atasks = tasks.awaiting

    @reads
    def timeline(self, minutes: int = 60) -> Op[builtins.list[MetricPoint]]:
        """Return every metric of every queue in the last closed minutes, up to 240, oldest first. For charts."""
        _check_minutes(minutes, MOST_AT_A_GLANCE)

        async def run(tx: Tx) -> list[MetricPoint]:
            until = await _newest(tx)
            return await rollup.window(tx, until - minutes * MINUTE, until, _MOST_POINTS)

        return Op(run)

    atimeline = timeline.awaiting

    @reads
    def series(
        self, queue: str, metric: str, minutes: int = 60, *, before: datetime | None = None
    ) -> Op[builtins.list[MetricPoint]]:
        """Return one metric of one queue by minute, oldest first; minutes in which nothing happened are left out.

        `before` is an instant, such as the first minute of the last answer, to page back.
        """
        name = check_queue(queue)
        _check_minutes(minutes, MOST_MINUTES)
        if metric not in (*COUNTERS, *LATENCIES):
            raise InvalidInput(f"there is no metric {metric!r}; there are {', '.join((*COUNTERS, *LATENCIES))}")
        end = _checked("before", before)

        async def run(tx: Tx) -> list[MetricPoint]:
            until = end if end is not None else await queries.clock(tx)
            return await rollup.series(tx, name, metric, until - minutes * MINUTE, until)

        return Op(run)

    aseries = series.awaiting

    @reads
    def health(self, minutes: int = 60, *, before: datetime | None = None) -> Op[builtins.list[HealthMinute]]:
        """Return the health of the worker processes and of the database, minute by minute, oldest first.

        `before` is an instant, to page back. Minutes without a worker are left out.
        """
        _check_minutes(minutes, MOST_MINUTES)
        end = _checked("before", before)

        async def run(tx: Tx) -> list[HealthMinute]:
            until = end if end is not None else await queries.clock(tx)
            return await stats.health_history(tx, until - minutes * MINUTE, until)

        return Op(run)

    ahealth = health.awaiting

    @reads
    def limits(self) -> Op[builtins.list[LimitStats]]:
        """Return every limit and how much of it is in use, the most saturated first."""
        return Op(stats.limits)

    alimits = limits.awaiting

    @reads
    def workers(self) -> Op[builtins.list[WorkerStats]]:
        """Return every registered worker, its state and the health of its process."""
        return Op(stats.workers)

    aworkers = workers.awaiting

    @composed
    async def store(self, line: Line) -> StoreStats:
        """Return the database's health: its size, reclaimable space, the duration of claims."""
        backend = line.store.backend
        return _with_wal(*await line.read(Op(lambda tx: stats.store(tx, backend))))

    astore = store.awaiting

    def operations(self) -> builtins.list[OperationStats]:
        """Return the durations of the store's operations in this process since it was opened. Reads no database."""
        return self._store().timings.read()

    @reads
    def leaders(self) -> Op[dict[str, str]]:
        """Return the worker that leads each role, by its id, as long as its lease holds."""
        return Op(workers.leaders)

    aleaders = leaders.awaiting

    @composed
    async def probe(self, line: Line) -> None:
        """Take the store's write lock once and change nothing; raises the error that prevents a write."""
        await line.write(Op(queries.clock, single=True))

    aprobe = probe.awaiting

    def roll(self) -> None:
        """Roll the minutes that have closed, as workers do by themselves. For tests and scripts that `drain`."""
        run_blocking(self.aroll(), instead="await aroll()")

    async def aroll(self) -> None:
        """The async version of `roll`."""
        meter = StatsRoller(self._store(), lambda: True, SYSTEM_CLOCK)
        while await meter.run_once() is not None:
            pass


class FailedRuns:
    """The newest failed runs, of all tenants or of one. Each run's kind is computed once."""

    def __init__(self, store: Callable[[], Store], tenant: str | None = None) -> None:
        self._store = store
        self._tenant = tenant
        self._known: dict[tuple[str, int], str] = {}

    @composed
    async def runs(
        self, line: Line, *, fingerprint: str | None = None, since: int = 0, limit: int = 200
    ) -> list[FailedRun]:
        """Return the newest failed runs, of one kind or of all, among the newest 1,000 since an instant."""
        return self._runs_of(await line.read(self._recent(since)), fingerprint, limit)

    aruns = runs.awaiting

    def _recent(self, since: int) -> Op[list[Row]]:
        return Op(lambda tx: errors.recent(tx, tenant=self._tenant, since=since, n=MOST_RUNS), single=True)

    def _runs_of(self, rows: list[Row], fingerprint: str | None, limit: int) -> list[FailedRun]:
        if not 1 <= limit <= MOST_RUNS:
            raise InvalidInput(f"limit is {limit}; use 1 to {MOST_RUNS:,}")
        runs = [self._run(row) for row in rows]
        return [run for run in runs if fingerprint in (None, run.fingerprint)][:limit]

    def _run(self, row: Row) -> FailedRun:
        at, job_id, epoch, task, error, attempt, outcome, state, queue, tenant = row
        return FailedRun(
            at=at, job_id=job_id, epoch=epoch, task=task, fingerprint=self._kind(job_id, epoch, task, error),
            attempt=attempt, outcome=outcome, error=error, state=state, queue=queue, tenant=tenant,
        )  # fmt: skip

    def _kind(self, job_id: str, epoch: int, task: str, error: str) -> str:
        known = self._known
        found = known.get((job_id, epoch))
        if found is None:
            if len(known) >= _REMEMBERED:
                known.clear()
            found = known[job_id, epoch] = kind_of(task, error).key
        return found


class Errors(FailedRuns):
    """Errors grouped by task, exception and stack trace."""

    @reads
    def list(
        self, *, task: str | None = None, since: datetime | None = None, limit: int = 50
    ) -> Op[builtins.list[ErrorGroup]]:
        """Return the error groups seen `since` an instant, most recent first."""
        n, start = _checked_limit(limit), _checked("since", since)
        return Op(lambda tx: errors.list_errors(tx, task=task, since=start, n=n), single=True)

    alist = list.awaiting

    @reads
    def show(self, fingerprint: str) -> Op[ErrorWhole]:
        """Return one kind, with the traceback of its newest error."""
        return Op(lambda tx: errors.get_error(tx, fingerprint), single=True)

    ashow = show.awaiting


class TenantErrors(FailedRuns):
    """Errors of a tenant's jobs, by kind."""

    def __init__(self, store: Callable[[], Store], tenant: str) -> None:
        super().__init__(store, tenant)
        self._whose = tenant

    @composed
    async def list(
        self, line: Line, *, task: str | None = None, since: datetime | None = None, limit: int = 50
    ) -> builtins.list[ErrorGroup]:
        """Return the error groups among the newest 2,000 failed runs, most recent first."""
        found = _kinds(await line.read(_failures(self._whose, task, _checked("since", since))))[: _checked_limit(limit)]
        return [_brief(group) for group in found]

    alist = list.awaiting

    @composed
    async def show(self, line: Line, fingerprint: str) -> ErrorWhole:
        """Return one kind, with the traceback of its newest error."""
        return _one(await line.read(_failures(self._whose)), fingerprint)

    ashow = show.awaiting


def _pick(found: list[QueueStats], name: str) -> QueueStats:
    return next((queue for queue in found if queue.name == name), None) or QueueStats.of(name)


def _worst(point: MetricPoint) -> WorstMinute:
    mean = (point.sum or 0.0) / point.count if point.count else None
    return WorstMinute(
        minute=point.minute, count=point.count, mean=mean, p50=point.p50, p95=point.p95, p99=point.p99, max=point.max
    )


async def _newest(tx: Tx) -> int:
    """Return the end of the newest minute that is rolled."""
    return await rollup.rolled_to(tx) or await queries.clock(tx) // MINUTE * MINUTE


def _check_minutes(minutes: int, most: int) -> None:
    if not 1 <= minutes <= most:
        raise InvalidInput(f"minutes is {minutes}; use 1 to {most:,}")


def _with_wal(health: StoreStats, file: str | None) -> StoreStats:
    return health if file is None else replace(health, wal_bytes=log_bytes(file))


def _failures(tenant: str, task: str | None = None, since: int | None = None) -> Op[errors.Page]:
    named = None if task is None else check_name("task", task)
    return Op(lambda tx: errors.failures_of(tx, tenant, task=named, since=since, n=_LOOKED_AT), single=True)


def _kinds(found: errors.Page) -> list[ErrorWhole]:
    # The groups come sorted by fingerprint, and the sort is stable.
    return sorted(errors.grouped(found), key=lambda group: group.last_seen, reverse=True)


def _brief(group: ErrorWhole) -> ErrorGroup:
    return ErrorGroup(**{name: getattr(group, name) for name in ErrorGroup.__struct_fields__})


def _checked(what: str, at: datetime | None) -> int | None:
    return None if at is None else check_instant(what, at)


def _one(found: errors.Page, fingerprint: str) -> ErrorWhole:
    for group in _kinds(found):
        if group.fingerprint == fingerprint:
            return group
    raise NotFound("error", fingerprint)


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= _MOST_ERRORS:
        raise InvalidInput(f"limit is {limit}; use 1 to {_MOST_ERRORS:,}")
    return limit
