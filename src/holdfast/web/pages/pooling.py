"""Approximate percentiles over several minutes or queues, from the percentiles known of each."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.stats import MetricPoint


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
