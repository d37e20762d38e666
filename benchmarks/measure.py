"""Figures and how they vary: several runs of each, told by their median and their extremes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

PAYLOAD: Final = "x" * 64
"""The text that each benchmark job carries."""

Reading: TypeAlias = dict[str, float | list[float]]
"""What one measurement found, by the figure's name. A list is a distribution, kept for the plots."""


@dataclass(slots=True)
class Figure:
    """One quantity, measured once per run."""

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """How far the extremes lie apart, as a share of the median."""
        return (max(self.values) - min(self.values)) / self.median if self.median else 0.0


@dataclass(frozen=True, slots=True)
class Latency:
    """The distribution of one run's samples, in milliseconds."""

    p50: float
    p99: float
    quantiles: list[float]
    """Of 0 %, 1 %, … 100 % of the samples."""

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        ordered = [1000 * value for value in sorted(seconds)]
        quantiles = [_at(ordered, share / 100) for share in range(101)]
        return cls(quantiles[50], quantiles[99], quantiles)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work each benchmark does."""

    runs: int = 3
    singles: int = 2_000
    threaded: int = 8_000
    awaited: int = 20_000
    bulks: int = 20
    drained: int = 30_000
    samples: int = 500
    frames: int = 20_000
    """Said by one job while ten readers follow it."""
    small: int = 10_000
    large: int = 1_000_000
    """Jobs of the two drains whose rates are compared for growth, and finished rows beside them."""
    waiters: int = 1_000
    workers: int = 50
    window: float = 10.0
    """Seconds for which something idle is watched."""
    contested: int = 20_000
    """Jobs of each drain beside another queue."""
    hooks: int = 5_000
    """Webhooks to a receiver on loopback."""

    @classmethod
    def quick(cls) -> Sizes:
        return cls(
            runs=1, singles=300, threaded=1_600, awaited=4_000, bulks=4, drained=5_000, samples=50, frames=4_000,
            small=2_000, large=10_000, waiters=100, workers=5, window=2.0, contested=1_000, hooks=500,
        )  # fmt: skip


def rate(work: Callable[[], object], count: int) -> float:
    """Items per second."""
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def poll_until(is_over: Callable[[], bool], *, pause: float = 0.004, limit: float = 900.0) -> None:
    """Look again and again, seldom enough not to disturb what is measured: the end is seen a hundredth late at most.

    Where dead entries of an index are stepped over, a look takes milliseconds. One every 4 ms took half of the server.
    """
    start = time.monotonic()
    while not is_over():
        elapsed = time.monotonic() - start
        if elapsed > limit:
            raise TimeoutError(f"nothing came to an end within {limit:g} s")
        time.sleep(max(pause, elapsed / 100))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
