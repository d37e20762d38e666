"""Figures and how they vary: several runs of each, told by their median and their extremes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

PAYLOAD: Final = "x" * 64
"""The text that each benchmark job carries."""


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

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        ordered = sorted(seconds)
        return cls(1000 * _at(ordered, 0.5), 1000 * _at(ordered, 0.99))


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work each benchmark does."""

    runs: int = 3
    singles: int = 2_000
    threaded: int = 8_000
    awaited: int = 20_000
    bulks: int = 20
    drained: int = 30_000
    samples: int = 300

    @classmethod
    def quick(cls) -> Sizes:
        return cls(runs=1, singles=300, threaded=1_600, awaited=4_000, bulks=4, drained=5_000, samples=50)


def rate(work: Callable[[], object], count: int) -> float:
    """Items per second."""
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def poll_until(is_over: Callable[[], bool], *, pause: float = 0.004, limit: float = 120.0) -> None:
    """Look again and again, seldom enough not to disturb what is measured."""
    deadline = time.monotonic() + limit
    while not is_over():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing came to an end within {limit:g} s")
        time.sleep(pause)


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
