"""Current statistics. Every count is bounded: beyond its cap it is an estimate, marked as one.

Live jobs are counted on the partial indexes that hold nothing else, up to a cap; a large number of finished ones is
taken from the tallies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ....clock import SECOND
from ....model.limits import breaker_lane, rate_lane
from ....model.stats import MINUTE, HealthMinute, LimitStats, QueueStats, StoreStats, Vitals, WorkerStats
from ....model.values import instant_of, micros_of
from ....model.workers import WorkerInfo
from ....rules.stats import QueueCounts, Surroundings, Switch, label_of_later, queue_stats, worst
from ...port import Tx
from ...statements import Statement, sql
from ..jobs.counting import ended
from ..jobs.queries import clock
from ..limits import breakers, rates
from ..limits.lanes import list_lanes
from ..workers.workers import list_with_jobs, list_workers, vitals_of_workers

READY_CAP: Final = 50_000
"""Per route and priority: they are counted on an index alone."""
LIVE_CAP: Final = 5_000
"""For delayed, parked, running and held jobs: each one's row is read."""
LANE_CAP: Final = 25_000

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode

_Counts = defaultdict[str, QueueCounts]


async def queues(tx: Tx) -> list[QueueStats]:
    """Return the current statistics of every queue."""
    found: _Counts = defaultdict(QueueCounts)
    await _count_due(tx, found)
    await _count_live(tx, found)
    await _count_ended(tx, found)
    around = Surroundings(
        now=await clock(tx),
        switches={row[0]: Switch(*row[1:]) for row in await tx.all(sql.queue_switches)},
        workers=await list_workers(tx),
        lanes=await list_lanes(tx),
    )
    return queue_stats(found, around)


async def health_now(tx: Tx, backend: str) -> tuple[HealthMinute, str | None]:
    """Return the current health of the worker processes and of the database, and the path of its file if any."""
    health, file = await store(tx, backend)
    now = await clock(tx)
    recent = [vitals for vitals in (await vitals_of_workers(tx)).values() if now - vitals.at <= MINUTE]
    point = HealthMinute(
        minute=instant_of(now // MINUTE * MINUTE),
        workers=len(recent),
        cpu=round(sum(vitals.cpu for vitals in recent), 3),
        rss=sum(vitals.rss for vitals in recent),
        rss_max=max((vitals.rss for vitals in recent), default=0),
        claims=health.claims,
        claim_p99=health.claim_p99,
        writes_waiting=health.writes_waiting,
        bytes=health.bytes,
        free_bytes=health.free_bytes,
        dead_rows=health.dead_rows,
        live_rows=health.live_rows,
        oldest_transaction=health.oldest_transaction,
    )
    return point, file


async def put_health(tx: Tx, point: HealthMinute) -> None:
    """Store the health of a minute; the first record of a minute stays."""
    minute = micros_of(point.minute)
    figures = {name: value for name, value in msgspec.structs.asdict(point).items() if value} | {"minute": minute}
    await tx.one(sql.put_health, minute=minute, health=_encode(figures).decode())


async def health_history(tx: Tx, since: int, until: int) -> list[HealthMinute]:
    """Return the recorded minutes of a span, oldest first."""
    found = [_decode(row[0]) for row in await tx.all(sql.list_health, since=since, until=until)]
    return [HealthMinute(minute=instant_of(figures.pop("minute")), **figures) for figures in found]


async def prune_health(tx: Tx, kept: int) -> None:
    await tx.one(sql.prune_health, kept=kept)


async def limits(tx: Tx) -> list[LimitStats]:
    """Return every limit, the most saturated first."""
    waiting: dict[str, int] = dict(await tx.all(sql.count_parked_lanes, cap=LANE_CAP))
    found = [
        _limit("concurrency", lane.key, lane.running, lane.capacity or 0, waiting.get(lane.key, 0))
        for lane in await list_lanes(tx)
    ]
    for bucket in await rates.list_buckets(tx):
        used = bucket.capacity - max(0.0, bucket.tokens)
        found.append(_limit("rate", bucket.scope, used, bucket.capacity, waiting.get(rate_lane(bucket.scope), 0)))
    for one in await breakers.list_breakers(tx):
        failed = min(one.failures, one.threshold) if one.state == "closed" else one.threshold
        found.append(_limit("breaker", one.scope, failed, one.threshold, waiting.get(breaker_lane(one.scope), 0)))
    return sorted(found, key=lambda limit: (-limit.saturation, limit.kind, limit.key))


def _limit(kind: str, key: str, used: float, capacity: float, waiting: int) -> LimitStats:
    saturation = used / capacity if capacity else 1.0
    return LimitStats(kind=kind, key=key, used=used, capacity=capacity, waiting=waiting, saturation=saturation)


async def workers(tx: Tx) -> list[WorkerStats]:
    """Return every registered worker, with its last report."""
    now, vitals = await clock(tx), await vitals_of_workers(tx)
    return [_worker(worker, vitals.get(worker.id), now) for worker in await list_with_jobs(tx)]


async def store(tx: Tx, backend: str) -> tuple[StoreStats, str | None]:
    """Return the database's health, and the path of its file if it has one."""
    row = await tx.one(sql.store_health)
    assert row is not None
    size, free, dead, live, oldest, file = row
    now = await clock(tx)
    recent = [vitals for vitals in (await vitals_of_workers(tx)).values() if now - vitals.at <= MINUTE]
    health = StoreStats(
        backend=backend,
        bytes=size or 0,
        free_bytes=free,
        dead_rows=dead,
        live_rows=live,
        oldest_transaction=oldest,
        claims=sum(vitals.claims for vitals in recent),
        claim_p50=worst(vitals.claim_p50 for vitals in recent),
        claim_p99=worst(vitals.claim_p99 for vitals in recent),
        writes_waiting=max((vitals.waiting for vitals in recent), default=0),
    )
    return health, file or None


async def _count_due(tx: Tx, found: _Counts) -> None:
    for queue, jobs, due in await tx.all(sql.count_ready, cap=READY_CAP):
        found[queue].add("waiting", jobs, due)
        if jobs >= READY_CAP:
            found[queue].estimated.add("waiting")
    for queue, jobs, due in await tx.all(sql.count_suspects, cap=LIVE_CAP):
        found[queue].add("waiting", jobs, due)
    rows = await tx.all(sql.count_later, cap=LIVE_CAP)
    for queue, is_due, reason, jobs, due in rows:
        found[queue].add("waiting" if is_due else label_of_later(reason), jobs, due if is_due else None)
    if sum(row[3] for row in rows) >= LIVE_CAP:
        _mark(found, "delayed", "retrying", "throttled")


async def _count_live(tx: Tx, found: _Counts) -> None:
    await _count(tx, found, sql.count_parked, lambda queue, jobs: (queue, "parked", jobs), "parked")
    await _count(tx, found, sql.count_running, lambda queue, jobs: (queue, "running", jobs), "running")
    await _count(tx, found, sql.count_held, lambda *row: row, "blocked", "suspended")


async def _count(
    tx: Tx, found: _Counts, statement: Statement, read: Callable[..., tuple[Any, ...]], *labels: str
) -> None:
    rows = [read(*row) for row in await tx.all(statement, cap=LIVE_CAP)]
    for queue, label, jobs in rows:
        found[queue].add(label, jobs)
    if sum(row[2] for row in rows) >= LIVE_CAP:
        _mark(found, *labels)


async def _count_ended(tx: Tx, found: _Counts) -> None:
    for count in await ended(tx):
        found[count.queue].add(count.state, count.jobs)
        if count.estimated:
            found[count.queue].estimated.add(count.state)


def _mark(found: _Counts, *labels: str) -> None:
    """Mark counts as estimates: the cap was reached, wherever the rest may be."""
    for counts in found.values():
        counts.estimated.update(label for label in labels if counts.labels.get(label))


def _worker(worker: WorkerInfo, vitals: Vitals | None, now: int) -> WorkerStats:
    return WorkerStats(
        id=worker.id,
        name=worker.name,
        host=worker.host,
        pid=worker.pid,
        queues=worker.queues,
        state=worker.state,
        slots=worker.concurrency,
        running=worker.running,
        oldest=worker.oldest,
        beat_age=max(0, now - micros_of(worker.beat_at)) / SECOND,
        vitals=vitals,
    )
