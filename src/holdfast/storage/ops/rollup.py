"""What happened, minute by minute. Rolling a minute again gives the same or finds what was committed late.

Reading is apart from writing: the slices are read on a snapshot, and a short transaction keeps what was found.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

from ...clock import SECOND
from ...ids import first_id_of
from ...model.stats import COUNTERS, MINUTE, MetricPoint
from ..port import Params, Row, Tx, Value
from ..statements import sql

SAMPLE: Final = 50_000
"""Of more runs than this in one minute of one queue, only every n-th is looked at for its latencies."""
ROLLED: Final = "rolled"
_SKEW: Final = 10 * SECOND
"""By how much the clock of whoever made an id may differ from the store's."""
_LONG: Final = 10 * MINUTE
_EMPTY: Final[dict[str, Value]] = dict.fromkeys(("sum", "p50", "p95", "p99", "max"))

Key = tuple[str, str, int]
"""Queue, metric, minute."""


async def count_minutes(tx: Tx, since: int, until: int) -> Counter[Key]:
    """How much of everything there was from one minute up to another."""
    found: Counter[Key] = Counter()
    window: dict[str, Value] = {"since": since, "until": until}
    for queue, state, minute, jobs in await tx.all(sql.roll_ended, **window):
        if state in COUNTERS:
            found[queue, state, minute] += jobs
    first, last = first_id_of(since - _SKEW), first_id_of(until + _SKEW)
    for queue, minute, jobs in await tx.all(sql.roll_enqueued, first_id=first, last_id=last, **window):
        found[queue, "enqueued", minute] += jobs
    for queue, minute, runs in await tx.all(sql.roll_started, later=until + _LONG, **window):
        found[queue, "started", minute] += int(runs)
    for queue, minute, outcome, runs in await tx.all(sql.roll_again, **window):
        found[queue, "throttled" if outcome == "throttled" else "retried", minute] += runs
    return found


async def measure_minutes(tx: Tx, since: int, until: int, counts: Counter[Key]) -> list[Params]:
    """The latencies of those minutes in which more runs ended than they were last measured on."""
    known = {(queue, minute): runs for queue, minute, runs in await tx.all(sql.rolled_counts, since=since, until=until)}
    rows: list[Params] = []
    for minute in range(since, until, MINUTE):
        strides = _strides(minute, counts, known)
        if strides:
            found = await tx.all(sql.roll_latencies, strides=json.dumps(strides), since=minute, until=minute + MINUTE)
            rows += [_latency(minute, row) for row in found]
    return rows


async def put(tx: Tx, counts: Counter[Key], latencies: list[Params]) -> None:
    """Keep what was found. A minute is never lowered: what it counted may have been deleted or replayed since."""
    rows: list[Params] = [
        {"queue": queue, "metric": metric, "minute": minute, "count": count, **_EMPTY}
        for (queue, metric, minute), count in sorted(counts.items())
    ]
    if rows or latencies:
        await tx.each(sql.put_metric, [*rows, *latencies])


async def prune(tx: Tx, kept: int) -> None:
    """Forget an hour's worth of minutes that are too old."""
    await tx.one(sql.prune_metrics, kept=kept)


async def rolled_to(tx: Tx) -> int:
    """Every minute before this one has been rolled; 0 if none ever was."""
    row = await tx.one(sql.get_mark, name=ROLLED)
    return int(row[0]) if row else 0


async def set_rolled(tx: Tx, before: int, to: int) -> None:
    await tx.one(sql.move_mark, name=ROLLED, at=to, place="", from_at=before, from_place="")


async def window(tx: Tx, since: int, until: int, n: int) -> list[MetricPoint]:
    """Every metric of every queue in a span, oldest first."""
    return [_point(row) for row in await tx.all(sql.metric_window, since=since, until=until, n=n)]


async def series(tx: Tx, queue: str, metric: str, since: int, until: int) -> list[MetricPoint]:
    """One metric of one queue, oldest first."""
    rows = await tx.all(sql.metric_series, queue=queue, metric=metric, since=since, until=until)
    return [_point(row) for row in rows]


def _strides(minute: int, counts: Counter[Key], known: dict[tuple[str, int], int]) -> dict[str, int]:
    """By queue: every how many-th run to look at; only queues that have news."""
    ended: Counter[str] = Counter()
    for (queue, metric, when), jobs in counts.items():
        if when == minute and metric in ("succeeded", "failed"):
            ended[queue] += jobs
    strides = {queue: -(-jobs // SAMPLE) for queue, jobs in ended.items()}
    # Of a sample the count is about a share of the whole; that it grew by less than one per cent is no news.
    return {
        queue: stride
        for queue, stride in strides.items()
        if ended[queue] > known.get((queue, minute), 0) * stride * (1.01 if stride > 1 else 1)
    }


def _latency(minute: int, row: Row) -> Params:
    queue, metric, count, total, p50, p95, p99, most = row
    return {
        "queue": queue, "metric": metric, "minute": minute, "count": count, "sum": int(total), "p50": p50, "p95": p95,
        "p99": p99, "max": most,
    }  # fmt: skip


def _point(row: Row) -> MetricPoint:
    queue, metric, minute, count, *spans = row
    return MetricPoint(queue, metric, minute, count, *(None if span is None else span / SECOND for span in spans))
