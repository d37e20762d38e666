"""Recent activity for charts, tiles and sparklines, from the per-minute statistics that workers store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...app import App
from ...clock import SECOND, SYSTEM_CLOCK
from ...model.stats import LATENCIES, MINUTE, MetricPoint
from ...model.values import micros_of
from .shared_reads import SharedRead

WINDOWS: Final = {"15m": 15, "1h": 60, "4h": 240}
"""By name, in minutes."""
ENDED: Final = ("succeeded", "failed", "cancelled", "expired", "skipped")
_OTHERWISE: Final = ("cancelled", "expired", "skipped")
_LAG: Final = 2
"""Minutes the newest statistics may lag before the charts show a gap."""
_STEPS: Final = 60
"""The maximum number of points in a chart."""
_RECENT: Final = 5


@dataclass(frozen=True, slots=True)
class Activity:
    """Activity over the last minutes, in equal steps of `step` minutes, oldest first."""

    starts: list[int]
    step: int
    counts: Mapping[str, list[int]]
    latencies: Mapping[str, list[list[MetricPoint]]]
    recent: Mapping[str, list[MetricPoint]] = field(default_factory=dict[str, list[MetricPoint]])
    """The latencies of the last few minutes."""

    def count(self, *metrics: str) -> list[int]:
        """Return the count in each step."""
        zeros = [0] * len(self.starts)
        return [sum(values) for values in zip(*(self.counts.get(name, zeros) for name in metrics), strict=True)]

    def per_minute(self, *metrics: str) -> list[float]:
        return [round(count / self.step, 2) for count in self.count(*metrics)]

    def last(self, *metrics: str) -> float:
        """Return the rate per minute over the last few minutes."""
        steps = max(1, _RECENT // self.step)
        return sum(self.count(*metrics)[-steps:]) / (steps * self.step)

    def total(self, *metrics: str) -> int:
        return sum(self.count(*metrics))

    def failing(self) -> float | None:
        """Return the share of runs in the window that failed; None if no run ended."""
        ended = self.total("succeeded", "failed", "retried")
        return self.total("failed", "retried") / ended if ended else None

    def failing_by_step(self) -> list[float]:
        ended, failed = self.count("succeeded", "failed", "retried"), self.count("failed", "retried")
        return [bad / all_ if all_ else 0.0 for bad, all_ in zip(failed, ended, strict=True)]

    def latency(self, metric: str, share: float) -> list[float | None]:
        """Return a percentile for each step, in microseconds."""
        return [_micros(pooled(points, share)) for points in self.latencies[metric]]

    def now(self, metric: str, share: float) -> float | None:
        """Return a percentile over the last few minutes, in microseconds."""
        return _micros(pooled(self.recent.get(metric, []), share))

    def busy(self) -> list[float]:
        """Return the average number of busy slots, from the run times of the finished runs."""
        seconds = 60.0 * self.step
        return [round(sum(point.sum or 0.0 for point in points) / seconds, 2) for points in self.latencies["run"]]

    def unfinished(self, now: int) -> list[int]:
        """Return the number of unfinished jobs at the end of each step, calculated back from the current number."""
        made, ended = self.count("enqueued"), self.count(*ENDED)
        found: list[int] = []
        for i in reversed(range(len(self.starts))):
            found.append(max(0, now))
            now -= made[i] - ended[i]
        return found[::-1]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The activity of all queues together and of each queue."""

    whole: Activity
    charts: dict[str, dict[str, Any]]
    queues: Mapping[str, Activity]

    def of(self, queue: str) -> Activity:
        return self.queues.get(queue) or Activity(self.whole.starts, self.whole.step, {}, _nothing(self.whole.starts))


_timelines: Final = SharedRead[Timeline](8.0)


async def timeline_of(app: App, window: str) -> Timeline:
    """Return recent activity. One query serves all callers within a few seconds, since a new minute comes no faster."""
    return await _timelines.at(app, window, lambda: _read(app, WINDOWS[window]))


async def _read(app: App, minutes: int) -> Timeline:
    points = await app.stats.atimeline(minutes)
    # Percentiles over many queues take a while; a thread keeps the event loop free.
    return await asyncio.to_thread(timeline, points, SYSTEM_CLOCK.now(), minutes)


def timeline(points: Sequence[MetricPoint], now: int, minutes: int) -> Timeline:
    """Turn the stored minutes into a timeline."""
    by_queue: dict[str, list[MetricPoint]] = {}
    for point in points:
        by_queue.setdefault(point.queue, []).append(point)
    end = _end(points, now)
    whole = activity(points, end, minutes)
    return Timeline(whole, charts_of(whole), {name: activity(own, end, minutes) for name, own in by_queue.items()})


def activity(points: Iterable[MetricPoint], end: int, minutes: int) -> Activity:
    """Return the activity in the minutes before `end`."""
    step = max(1, minutes // _STEPS)
    n = minutes // step
    begin = end - n * step * MINUTE
    counts: dict[str, list[int]] = {}
    latencies = _nothing([0] * n)
    recent: dict[str, list[MetricPoint]] = {name: [] for name in LATENCIES}
    for point in points:
        minute = micros_of(point.minute)
        i = (minute - begin) // (step * MINUTE)
        if not 0 <= i < n:
            continue
        if point.metric in latencies:
            latencies[point.metric][i].append(point)
            if minute >= end - _RECENT * MINUTE:
                recent[point.metric].append(point)
        else:
            counts.setdefault(point.metric, [0] * n)[i] += point.count
    return Activity([begin + i * step * MINUTE for i in range(n)], step, counts, latencies, recent)


def charts_of(found: Activity) -> dict[str, dict[str, Any]]:
    """Return the charts of an activity by name, as the script draws them."""
    ends: list[tuple[str, str, tuple[str, ...]]] = [("succeeded", "succeeded", ("succeeded",))]
    ends += [("retried", "blocked", ("retried",))]
    ends += [("failed", "failed", ("failed",)), ("other outcomes", "cancelled", _OTHERWISE)]
    shown = [one for one in ends if one[0] != "other outcomes" or found.total(*_OTHERWISE)]
    outcomes = [{"label": label, "tone": tone, "values": found.per_minute(*names)} for label, tone, names in shown]
    return {
        "throughput": chart(found, outcomes, unit="", kind="stack"),
        "wait": chart(found, _spread(found, "wait"), unit="duration", kind="line"),
        "run": chart(found, _spread(found, "run"), unit="duration", kind="line"),
    }


def load_chart(found: Activity, unfinished: int) -> dict[str, Any]:
    """Return the chart of unfinished jobs."""
    values = found.unfinished(unfinished)
    return chart(found, [{"label": "unfinished jobs", "tone": "accent", "values": values}], unit="", kind="area")


def chart(found: Activity, series: list[dict[str, Any]], *, unit: str, kind: str) -> dict[str, Any]:
    has_any = any(value for one in series for value in one["values"])
    starts = [start // SECOND for start in found.starts] if has_any else []
    return {"x": starts, "series": series if has_any else [], "unit": unit, "kind": kind}


def _spread(found: Activity, metric: str) -> list[dict[str, Any]]:
    tones = (("p50", 0.5, "accent"), ("p95", 0.95, "warn"), ("p99", 0.99, "bad"))
    return [{"label": name, "tone": tone, "values": found.latency(metric, share)} for name, share, tone in tones]


def _end(points: Sequence[MetricPoint], now: int) -> int:
    """Return the end of the last complete minute; an incomplete one would look as if nothing had happened."""
    newest = max((micros_of(point.minute) for point in points), default=0) + MINUTE
    return max(newest, (now // MINUTE - _LAG) * MINUTE)


def _nothing(starts: Sequence[int]) -> dict[str, list[list[MetricPoint]]]:
    return {name: [[] for _ in starts] for name in LATENCIES}


def _micros(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * SECOND)


def pooled(points: Sequence[MetricPoint], share: float) -> float | None:
    """Return the value below which this share of all values lies; None if there are none.

    Between the known percentiles of a point, values are assumed to be spread evenly.
    """
    known = [point for point in points if point.count and point.max is not None]
    if not known:
        return None
    total = sum(point.count for point in known)
    marks = sorted({0.0, *(value for point in known for value, _ in _curve(point))})
    low, high = 0, len(marks) - 1
    while low < high:
        middle = (low + high) // 2
        if _below(known, marks[middle]) >= share * total:
            high = middle
        else:
            low = middle + 1
    if low == 0:
        return marks[0]
    before, after = _below(known, marks[low - 1]), _below(known, marks[low])
    part = (share * total - before) / (after - before) if after > before else 1.0
    return marks[low - 1] + min(1.0, max(0.0, part)) * (marks[low] - marks[low - 1])


def _below(points: Sequence[MetricPoint], value: float) -> float:
    return sum(point.count * _share_below(point, value) for point in points)


def _share_below(point: MetricPoint, value: float) -> float:
    left, reached = 0.0, 0.0
    for right, share in _curve(point):
        if value < right:
            return reached + (share - reached) * (value - left) / (right - left)
        left, reached = right, share
    return 1.0


def _curve(point: MetricPoint) -> list[tuple[float, float]]:
    pairs = ((point.p50, 0.5), (point.p95, 0.95), (point.p99, 0.99), (point.max, 1.0))
    return [(value, share) for value, share in pairs if value is not None]
