"""Numbers: throughput, minutes, limits, errors by kind, the store's health."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal, TypeAlias

import msgspec

from ..client.stats import Throughput as ThroughputRecord
from ..model.stats import COUNTERS, HealthPoint, MetricPoint
from ..model.stats import ErrorGroup as ErrorRecord
from ..model.stats import Latency as LatencyRecord
from ..model.stats import LimitStats as LimitRecord
from ..model.stats import OperationStats as OperationRecord
from ..model.stats import TaskStats as TaskRecord
from ..model.values import Instant, instant_of


class WorstMinute(msgspec.Struct, frozen=True, kw_only=True):
    """A latency in the worst minute, in seconds."""

    minute: Instant | None
    count: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a queue in the last closed minutes."""

    queue: str
    per_minute: dict[str, float]
    worst_minute: dict[str, WorstMinute]


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution of durations, in seconds. Percentiles are off by a fifth at most."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class TaskStats(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one task in the last closed minutes. `failure_rate` is null where no run ended."""

    task: str
    counts: dict[str, int]
    failure_rate: float | None
    run: Latency | None
    wait: Latency | None


class OperationStats(msgspec.Struct, frozen=True, kw_only=True):
    """Durations, in seconds, of one operation of the store in one process. Percentiles are estimated."""

    operation: str
    outcome: str
    count: int
    sum: float
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The value of one metric in one closed minute of one queue. Of a counter only `count` is there."""

    queue: str
    metric: str
    minute: Instant | None
    count: int
    sum: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class HealthMinute(msgspec.Struct, frozen=True, kw_only=True):
    """The health of all worker processes and of the database in one minute. Null: this database does not tell it."""

    minute: Instant | None
    workers: int
    cpu: float
    rss: int
    rss_max: int
    claims: int
    claim_p99: float | None
    writes_waiting: int
    bytes: int
    free_bytes: int | None
    dead_rows: int | None
    live_rows: int | None
    oldest_transaction: float | None
    wal_bytes: int | None
    disk_free: int | None
    pool_peak: int | None
    pool_size: int | None


def of_health_point(point: HealthPoint) -> HealthMinute:
    figures = msgspec.structs.asdict(point)
    return HealthMinute(minute=instant_of(figures.pop("minute")), **figures)


class LimitUse(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, how much of it is in use, and how many jobs are parked behind it."""

    kind: str
    key: str
    used: float
    capacity: float
    waiting: int
    saturation: float


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of one kind: same task, same exception, same way through the code. The message is the newest's."""

    fingerprint: str
    task: str
    type: str
    message: str
    last_job: str
    first_seen: Instant | None
    last_seen: Instant | None
    count: int


class ErrorWhole(ErrorGroup, frozen=True, kw_only=True):
    """A kind with the traceback of its newest: null where the caller may not see payloads."""

    traceback: str | None


def of_throughput(rate: ThroughputRecord) -> Throughput:
    return Throughput(
        queue=rate.queue,
        per_minute={name: rate.per_minute(name) for name in sorted(rate.counts)},
        worst_minute={name: _worst(point) for name, point in sorted(rate.latencies.items())},
    )


def of_task_stats(stats: TaskRecord) -> TaskStats:
    return TaskStats(
        task=stats.task,
        counts={counter: stats.count(counter) for counter in COUNTERS},
        failure_rate=stats.failure_rate,
        run=_latency(stats.run),
        wait=_latency(stats.wait),
    )


def of_operation_stats(one: OperationRecord) -> OperationStats:
    return OperationStats(
        operation=one.operation,
        outcome=one.outcome,
        count=one.count,
        sum=one.sum,
        mean=one.mean,
        p50=one.p50,
        p95=one.p95,
        p99=one.p99,
        max=one.max,
    )


def of_point(point: MetricPoint) -> Point:
    return Point(
        queue=point.queue,
        metric=point.metric,
        minute=instant_of(point.minute),
        count=point.count,
        sum=point.sum,
        p50=point.p50,
        p95=point.p95,
        p99=point.p99,
        max=point.max,
    )


def of_limit_use(limit: LimitRecord) -> LimitUse:
    return LimitUse(
        kind=limit.kind,
        key=limit.key,
        used=limit.used,
        capacity=limit.capacity,
        waiting=limit.waiting,
        saturation=limit.saturation,
    )


def of_error(group: ErrorRecord) -> ErrorGroup:
    return ErrorGroup(**_error_facts(group))


def of_error_whole(group: ErrorRecord, *, payload: bool = True) -> ErrorWhole:
    """A kind whole. Without `payload` its traceback is withheld."""
    return ErrorWhole(**_error_facts(group), traceback=group.traceback if payload else None)


def _latency(latency: LatencyRecord | None) -> Latency | None:
    return None if latency is None else Latency(**asdict(latency))


def _worst(point: MetricPoint) -> WorstMinute:
    return WorstMinute(
        minute=instant_of(point.minute),
        count=point.count,
        mean=(point.sum or 0.0) / point.count if point.count else None,
        p50=point.p50,
        p95=point.p95,
        p99=point.p99,
        max=point.max,
    )


def _error_facts(group: ErrorRecord) -> dict[str, Any]:
    return {
        "fingerprint": group.fingerprint,
        "task": group.task,
        "type": group.type,
        "message": group.message,
        "last_job": group.last_job,
        "first_seen": instant_of(group.first_seen),
        "last_seen": instant_of(group.last_seen),
        "count": group.count,
    }


Status: TypeAlias = Literal["ok", "degraded", "down"]


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not well. `code` stays as it is over versions; `message` is for people."""

    code: str
    message: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the whole, and the problems found."""

    status: Status
    reasons: list[Trouble]
    checked_at: Instant
    last_delivery: Instant | None = None
    """When an outbox entry or a webhook was last delivered, where one ever was."""
    last_poll: Instant | None = None
    """When an inventory last answered this process; of several, the one that answered longest ago."""


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["ok"] = "ok"
