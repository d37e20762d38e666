"""Limits: concurrency, rates, totals and circuit breakers."""

from __future__ import annotations

import msgspec

from ..client.limits import LimitsView
from ..clock import SECOND
from ..model.limits import Breaker as BreakerRecord
from ..model.limits import Bucket, Lane
from ..model.values import Instant, instant_of
from .bulk import Changed


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A token bucket: up to `capacity` at once, `refill` a second. `keys` counts the keys with one of their own."""

    scope: str
    capacity: float
    refill: float
    tokens: float
    origin: str
    keys: int


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """A circuit breaker. After `threshold` failures in a row it opens for `open_for` seconds."""

    scope: str
    state: str
    failures: int
    threshold: int
    open_for: float
    opened_at: Instant | None
    open_until: Instant | None
    trial: str | None
    openings: int
    origin: str


class BreakerMoved(Changed, frozen=True, kw_only=True):
    """A breaker after it was opened or closed by hand."""

    breaker: Breaker


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Every limit and how it stands. `totals` are jobs at once by queue, split over the workers."""

    lanes: list[Lane]
    rates: list[Rate]
    totals: dict[str, int]
    breakers: list[Breaker]


class Most(msgspec.Struct, frozen=True, kw_only=True):
    """The number that run at once from now on."""

    most: int


class RateSet(msgspec.Struct, frozen=True, kw_only=True):
    """A rate as it was set."""

    scope: str
    capacity: float
    per_second: float


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """The number of a queue's jobs that run at once over all workers; null is without a total."""

    queue: str
    total: int | None


def of_limits(view: LimitsView) -> Limits:
    return Limits(
        lanes=view.lanes,
        rates=[of_rate(bucket) for bucket in view.buckets],
        totals=view.totals,
        breakers=[of_breaker(breaker) for breaker in view.breakers],
    )


def of_rate(bucket: Bucket) -> Rate:
    return Rate(
        scope=bucket.scope,
        capacity=bucket.capacity,
        refill=bucket.refill,
        tokens=bucket.tokens,
        origin=bucket.origin,
        keys=bucket.keys,
    )


def of_breaker(breaker: BreakerRecord) -> Breaker:
    return Breaker(
        scope=breaker.scope,
        state=breaker.state,
        failures=breaker.failures,
        threshold=breaker.threshold,
        open_for=breaker.open_for / SECOND,
        opened_at=instant_of(breaker.opened_at),
        open_until=instant_of(breaker.open_until),
        trial=breaker.trial[0] if breaker.trial and breaker.trial_runs else None,
        openings=breaker.openings,
        origin=breaker.origin,
    )
