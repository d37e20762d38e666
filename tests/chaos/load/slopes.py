"""What a series of samples comes to: where it stood, how it rises, and whether that is more than it may."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

HOUR = 3600.0
Sample = tuple[float, float]
"""Seconds since the beginning, and what was measured then."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How much a measure may rise in an hour, or while it is measured as a share of its mean; and its greatest."""

    per_hour: float | None = None
    share: float | None = None
    besides: float = 0.0
    """A rise that is none, however small the mean."""
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Trend:
    """A line through the samples by least squares."""

    name: str
    unit: str
    mean: float
    greatest: float
    per_hour: float
    hours: float
    """For how long it was measured."""
    bound: Bound

    @property
    def allowed(self) -> float | None:
        """The steepest rise in an hour."""
        if self.bound.share is not None:
            return max(self.bound.share * abs(self.mean), self.bound.besides) / self.hours
        return self.bound.per_hour

    @property
    def is_flat(self) -> bool:
        if self.bound.most is not None and self.greatest > self.bound.most:
            return False
        return self.allowed is None or self.per_hour <= self.allowed

    def __str__(self) -> str:
        allowed = "-" if self.allowed is None else f"{self.allowed:+.1f}"
        most = "-" if self.bound.most is None else f"{self.bound.most:g}"
        verdict = "" if self.is_flat else "  RISES" if self.per_hour > (self.allowed or 0) else "  TOO LARGE"
        figures = f"{self.mean:10.2f} {self.greatest:10.2f} {most:>6} {self.per_hour:+12.2f} {allowed:>10}"
        return f"{self.name:28} {self.unit:6} {figures}{verdict}"


HEADER = f"{'measure':28} {'unit':6} {'mean':>10} {'greatest':>10} {'most':>6} {'per hour':>12} {'at most':>10}"


def trend(name: str, unit: str, samples: Iterable[Sample], bound: Bound) -> Trend:
    found = list(samples)
    values = [value for _, value in found]
    hours = max(found[-1][0] - found[0][0], 1.0) / HOUR
    return Trend(name, unit, fmean(values), max(values), slope(found) * HOUR, hours, bound)


def slope(samples: Sequence[Sample]) -> float:
    """The rise in a second."""
    at, value = fmean(t for t, _ in samples), fmean(v for _, v in samples)
    spread = sum((t - at) ** 2 for t, _ in samples)
    return sum((t - at) * (v - value) for t, v in samples) / spread if spread else 0.0
