"""Metrics per minute. Rolling a minute again gives the same, or includes what was committed late.

Reading and writing are separate: the slices are read on a snapshot, and a short transaction stores the results.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

import msgspec

from ....clock import SECOND
from ....ids import first_id_of
from ....model.stats import COUNTERS, MINUTE, MetricPoint, TaskStats
from ....model.values import instant_of, seconds_of
from ....rules.stats import Spread, TaskFigures
from ...port import Params, Row, Tx, Value
from ...statements import sql

SAMPLE: Final = 5_000
"""Of more runs than this in one minute of one queue, only every n-th is read for its latencies."""
ROLLED: Final = "rolled"
_SKEW: Final = 10 * SECOND
"""The tolerated difference between the clock of an enqueuing client and the store's."""
_LONG: Final = 10 * MINUTE
_EMPTY: Final[dict[str, Value]] = dict.fromkeys(("sum", "p50", "p95", "p99", "max"))

Key = tuple[str, str]
"""Queue and metric."""
Counts = Counter[tuple[str, str, str]]
"""By queue, task and counter."""


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(TaskFigures).decode


@dataclass(frozen=True, slots=True)
class Rolled:
    """The results of a minute: rows of the queues' metrics, and rows of the tasks' figures."""

    queues: list[Params]
    tasks: list[Params]


@dataclass(frozen=True, slots=True)
class Signs:
    """Counts from the indexes for a minute: how many jobs ended, were enqueued, and did not succeed."""

    ended: int
    made: int
    failed: int

    @property
    def is_empty(self) -> bool:
        return not (self.ended or self.made or self.failed)


async def signs_of(tx: Tx, minute: int) -> tuple[Signs, int]:
    """Return the counts that show whether a minute must be rolled again; and how many running jobs began in it."""
    first, last = first_id_of(minute - _SKEW), first_id_of(minute + MINUTE)
    row = await tx.one(sql.signs_of_minute, first_id=first, last_id=last, since=minute, until=minute + MINUTE)
    assert row is not None
    return Signs(*row[:3]), row[3]


async def first_sign(tx: Tx, since: int) -> int | None:
    """Return the first minute, from `since` on, in which a job was enqueued or a run began or ended; None if none."""
    row = await tx.one(sql.first_sign, since=since, first_id=first_id_of(since - _SKEW))
    return None if row is None or row[0] is None else row[0] // MINUTE * MINUTE


async def roll(tx: Tx, minute: int) -> Rolled:
    """Compute the metrics of one minute, from its slices of the indexes."""
    counts = await _count(tx, minute)
    queues = _by_queue(counts)
    rows: list[Params] = [
        {"queue": queue, "metric": metric, "minute": minute, "count": count, **_EMPTY}
        for (queue, metric), count in sorted(queues.items())
    ]
    return Rolled(rows + await _measure(tx, minute, queues), await _roll_tasks(tx, minute, counts))


async def put(tx: Tx, rolled: Rolled) -> None:
    """Store what was rolled. A minute is never lowered: jobs it counted may have been deleted or retried since."""
    if rolled.queues:
        await tx.each(sql.put_metric, rolled.queues)
    if rolled.tasks:
        await tx.each(sql.put_task_minute, rolled.tasks)


async def prune(tx: Tx, kept: int, tasks_kept: int) -> None:
    """Delete an hour's worth of minutes that are too old."""
    await tx.one(sql.prune_metrics, kept=kept)
    await tx.one(sql.prune_task_minutes, kept=tasks_kept)


async def rolled_to(tx: Tx) -> int:
    """Return the minute before which all have been rolled; 0 if none ever was."""
    row = await tx.one(sql.get_mark, name=ROLLED)
    return int(row[0]) if row else 0


async def set_rolled(tx: Tx, before: int, to: int) -> None:
    await tx.one(sql.move_mark, name=ROLLED, at=to, place="", from_at=before, from_place="")


async def window(tx: Tx, since: int, until: int, n: int) -> list[MetricPoint]:
    """Return every metric of every queue in a span, oldest first."""
    return [_point(row) for row in await tx.all(sql.metric_window, since=since, until=until, n=n)]


async def totals(tx: Tx, since: int, until: int) -> tuple[dict[Key, int], list[MetricPoint]]:
    """Return the sums over a span; and of the latencies the worst minute."""
    counted = {
        (queue, metric): int(count)
        for queue, metric, count in await tx.all(sql.metric_totals, since=since, until=until)
    }
    return counted, [_point(row) for row in await tx.all(sql.metric_worst, since=since, until=until)]


async def series(tx: Tx, queue: str, metric: str, since: int, until: int) -> list[MetricPoint]:
    """Return one metric of one queue, oldest first."""
    rows = await tx.all(sql.metric_series, queue=queue, metric=metric, since=since, until=until)
    return [_point(row) for row in rows]


async def task_totals(tx: Tx, since: int, until: int) -> list[TaskStats]:
    """Return each task's figures in a span, by name."""
    found: defaultdict[str, TaskFigures] = defaultdict(TaskFigures)
    # An hour at a time: a day of many tasks would take much memory at once.
    for hour in range(since, until, 60 * MINUTE):
        for task, figures in await tx.all(sql.task_minutes, since=hour, until=min(until, hour + 60 * MINUTE)):
            found[task].add(_decode(figures))
    return [figures.stats(task) for task, figures in sorted(found.items())]


async def _count(tx: Tx, minute: int) -> Counts:
    found: Counts = Counter()
    slice_: dict[str, Value] = {"since": minute, "until": minute + MINUTE}
    for queue, task, state, jobs in await tx.all(sql.roll_ended, **slice_):
        if state in COUNTERS:
            found[queue, task, state] += jobs
    first, last = first_id_of(minute - _SKEW), first_id_of(minute + MINUTE + _SKEW)
    for queue, task, jobs in await tx.all(sql.roll_enqueued, first_id=first, last_id=last, **slice_):
        found[queue, task, "enqueued"] += jobs
    for queue, task, runs in await tx.all(sql.roll_started, later=minute + _LONG, **slice_):
        found[queue, task, "started"] += int(runs)
    for queue, task, outcome, runs in await tx.all(sql.roll_again, **slice_):
        found[queue, task, "throttled" if outcome == "throttled" else "retried"] += runs
    return found


def _by_queue(counts: Counts) -> Counter[Key]:
    found: Counter[Key] = Counter()
    for (queue, _, metric), count in counts.items():
        found[queue, metric] += count
    return found


async def _roll_tasks(tx: Tx, minute: int, counts: Counts) -> list[Params]:
    found: defaultdict[str, TaskFigures] = defaultdict(TaskFigures)
    for (_, task, counter), count in counts.items():
        found[task].add(TaskFigures(counts={counter: count}))
    for task, metric, *figures in await tx.all(sql.roll_task_spreads, since=minute, until=minute + MINUTE):
        spread: Spread = getattr(found[task], metric)
        spread.put(*map(int, figures))
    return [
        {"minute": minute, "task": task, "count": sum(figures.counts.values()), "figures": _encode(figures).decode()}
        for task, figures in sorted(found.items())
    ]


async def _measure(tx: Tx, minute: int, counts: Counter[Key]) -> list[Params]:
    ended: Counter[str] = Counter()
    for (queue, metric), jobs in counts.items():
        if metric in ("succeeded", "failed"):
            ended[queue] += jobs
    if not ended:
        return []
    strides = json.dumps({queue: -(-jobs // SAMPLE) for queue, jobs in ended.items()})
    rows = await tx.all(sql.roll_latencies, strides=strides, since=minute, until=minute + MINUTE)
    return [_latency(minute, row) for row in rows]


def _latency(minute: int, row: Row) -> Params:
    queue, metric, count, total, p50, p95, p99, most = row
    return {
        "queue": queue, "metric": metric, "minute": minute, "count": count, "sum": int(total), "p50": p50, "p95": p95,
        "p99": p99, "max": most,
    }  # fmt: skip


def _point(row: Row) -> MetricPoint:
    queue, metric, minute, count, *spans = row
    return MetricPoint(queue, metric, instant_of(minute), count, *map(seconds_of, spans))
