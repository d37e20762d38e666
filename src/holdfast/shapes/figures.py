"""Numbers: throughput, minutes, limits, errors by kind, the store's health."""

from __future__ import annotations

from typing import Any

import msgspec

from ..client.stats import Throughput as ThroughputRecord
from ..model.stats import ErrorGroup as ErrorRecord
from ..model.stats import LimitStats as LimitRecord
from ..model.stats import MetricPoint
from .values import Instant, instant_of


class WorstMinute(msgspec.Struct, frozen=True, kw_only=True):
    """What a latency was in the worst minute, in seconds."""

    minute: Instant | None
    count: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue did in the last closed minutes."""

    queue: str
    per_minute: dict[str, float]
    worst_minute: dict[str, WorstMinute]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What one metric was in one closed minute of one queue. Of a counter only `count` is there."""

    queue: str
    metric: str
    minute: Instant | None
    count: int
    sum: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


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
    """A kind with the traceback of its newest."""

    traceback: str


def of_throughput(rate: ThroughputRecord) -> Throughput:
    return Throughput(
        queue=rate.queue,
        per_minute={name: rate.per_minute(name) for name in sorted(rate.counts)},
        worst_minute={name: _worst(point) for name, point in sorted(rate.latencies.items())},
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


def of_error_whole(group: ErrorRecord) -> ErrorWhole:
    return ErrorWhole(**_error_facts(group), traceback=group.traceback)


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
