"""Statistics of queues, tasks, limits and workers, current and per minute."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ...model.stats import (
    HealthMinute,
    LimitStats,
    MetricPoint,
    OperationStats,
    QueueStats,
    TaskStats,
    Throughput,
    WorkerStats,
)
from ...model.values import Instant
from ..wire.call import Call
from ..wire.operation import Group
from .paging import Page, whole
from .types import QueueName

group = Group("Stats", "Statistics of queues, tasks, limits and workers, current and per minute.")

Metric = Literal[
    "enqueued", "started", "succeeded", "failed", "retried", "throttled", "cancelled", "expired", "skipped",
    "wait", "run", "total",
]  # fmt: skip
Minutes = Annotated[int, msgspec.Meta(ge=1, le=240)]
_WHAT = "statistics of the whole store"


class RecentQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The number of complete minutes."""

    minutes: Minutes = 5


class TasksQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The number of complete minutes, up to a day."""

    minutes: Annotated[int, msgspec.Meta(ge=1, le=1_440)] = 60


class TimelineQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The number of complete minutes."""

    minutes: Minutes = 60


class SeriesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One metric of one queue; `before` pages back."""

    queue: QueueName
    metric: Metric
    minutes: Annotated[int, msgspec.Meta(ge=1, le=2_000)] = 60
    before: Instant | None = None


class HealthQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The number of minutes; `before` pages back."""

    minutes: Annotated[int, msgspec.Meta(ge=1, le=2_000)] = 60
    before: Instant | None = None


@group.get("/stats/queues", needs="read")
async def queue_stats(call: Call) -> Page[QueueStats]:
    """Get current figures of every queue: jobs by label, the oldest due job, busy slots."""
    if call.identity.tenant:
        return whole(await call.app.scoped(call.identity.tenant).queues.astats())
    return whole(await call.app.stats.aqueues())


@group.get("/stats/throughput", needs="read")
async def throughput(call: Call, query: RecentQuery) -> Page[Throughput]:
    """Get each queue's throughput over the last complete minutes; latencies are those of the worst minute."""
    return whole(await call.whole(_WHAT).stats.athroughput(query.minutes))


@group.get("/stats/tasks", needs="read")
async def task_stats(call: Call, query: TasksQuery) -> Page[TaskStats]:
    """Get each task's counts, failure rate, run time and queue wait over the last complete minutes."""
    return whole(await call.whole(_WHAT).stats.atasks(query.minutes))


@group.get("/stats/timeline", needs="read")
async def timeline(call: Call, query: TimelineQuery) -> Page[MetricPoint]:
    """List every metric of every queue over the last complete minutes, oldest first. For charts."""
    return whole(await call.whole(_WHAT).stats.atimeline(query.minutes))


@group.get("/stats/series", needs="read")
async def series(call: Call, query: SeriesQuery) -> Page[MetricPoint]:
    """List one metric of one queue by minute, oldest first; minutes without data are left out."""
    found = await call.whole(_WHAT).stats.aseries(query.queue, query.metric, query.minutes, before=query.before)
    return whole(found)


@group.get("/stats/health", needs="read")
async def health_history(call: Call, query: HealthQuery) -> Page[HealthMinute]:
    """List the health of workers and database by minute, oldest first. Kept for 30 days."""
    return whole(await call.whole(_WHAT).stats.ahealth(query.minutes, before=query.before))


@group.get("/stats/operations", needs="read")
async def operation_stats(call: Call) -> Page[OperationStats]:
    """List the duration of store operations in the responding process, since it opened the store."""
    return whole(call.whole(_WHAT).stats.operations())


@group.get("/stats/limits", needs="read")
async def limit_stats(call: Call) -> Page[LimitStats]:
    """List the limits with their use, most saturated first."""
    return whole(await call.whole(_WHAT).stats.alimits())


@group.get("/stats/workers", needs="read")
async def worker_stats(call: Call) -> Page[WorkerStats]:
    """List the registered workers with their state and process figures."""
    return whole(await call.whole(_WHAT).stats.aworkers())
