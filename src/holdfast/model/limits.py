"""Limits: those that a job names, and their current use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from ..clock import SECOND
from .values import Instant, instant_of, seconds_of


class JobLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of one job, besides those of its task and queue."""

    key: str | None = None
    """The lane of its concurrency key."""
    capacity: int | None = None
    rate: str | None = None
    """The scope of its token bucket."""
    breaker: str | None = None
    """The scope of its circuit breaker."""
    reserve: dict[str, dict[str, int]] | None = None
    """The amounts that it reserves in budgets before it starts, in millionths by budget and dimension."""
    quota: str | None = None
    keyed: str | None = None
    """The scope of its own bucket, if `rate` is limited by key."""
    own_reserve: bool = False
    """True if only budgets of its tenant count: a caller confined to the tenant named them."""
    own_quota: bool = False
    """True if only quotas of its tenant count."""

    def encode(self) -> str:
        return _ENCODER.encode(self).decode()

    @staticmethod
    def decode(text: str) -> JobLimits:
        return _DECODER.decode(text)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(JobLimits)


class Lane(msgspec.Struct, frozen=True):
    """One concurrency limit, and the number of jobs that count in it."""

    key: str
    standing: bool
    capacity: int | None
    running: int
    origin: str = "code"


@dataclass(frozen=True, slots=True)
class Undeclared:
    """A rate or a breaker that does not exist, so that jobs which name it wait for it."""

    kind: str
    """"rate" or "breaker"."""
    name: str
    tasks: tuple[str, ...]
    job_id: str = ""
    """The first job that waits for it; "" if none does."""

    @property
    def remedy(self) -> str:
        """Return what makes it exist."""
        code, command = (
            (f"app.rate({self.name!r}, per_second=…)", f"holdfast limits rate {self.name} …")
            if self.kind == "rate"
            else (f"app.breaker({self.name!r})", f"holdfast breakers set {self.name}")
        )
        return f"correct the name, declare it with {code}, or run: {command}"


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A token bucket: up to `capacity` at once, `refill` per second."""

    scope: str
    capacity: float
    refill: float
    tokens: float
    origin: str
    keys: int
    """The number of keys that have a bucket of their own, of this size."""


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """A circuit breaker. After `threshold` failures in a row it opens for `open_for` seconds."""

    scope: str
    state: str
    """closed, open or half_open."""
    failures: int
    threshold: int
    open_for: float
    opened_at: Instant | None
    open_until: Instant | None
    trial: str | None
    """The trial job, while it runs."""
    openings: int
    origin: str


class LimitsView(msgspec.Struct, frozen=True, kw_only=True):
    """Every limit and its use."""

    lanes: list[Lane]
    rates: list[Rate]
    totals: dict[str, int]
    """Concurrency per queue, split over the workers."""
    breakers: list[Breaker]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRecord:
    """A circuit breaker as it was at `now`: closed, open, or half open, with a single trial job.

    Instants and durations are microseconds.
    """

    scope: str
    threshold: int
    """Failures in a row that open it."""
    open_for: int
    failures: int = 0
    opened_at: int | None = None
    open_until: int | None = None
    trial: tuple[str, int] | None = None
    """The trial run: its job and epoch."""
    openings: int = 0
    origin: str = "code"
    now: int = 0
    trial_runs: bool = False
    """True if that job still runs under that epoch."""
    waits: bool = False
    """True if jobs are parked behind it."""

    @property
    def state(self) -> str:
        """closed, open or half_open."""
        if self.opened_at is None or self.open_until is None:
            return "closed"
        # A clock that was set back by much would keep it open for as long; a little happens between two transactions.
        return "open" if self.opened_at - 5 * SECOND <= self.now < self.open_until else "half_open"

    @property
    def room(self) -> int | None:
        """The number of jobs that it admits; None is all."""
        return {"closed": None, "open": 0, "half_open": 0 if self.trial_runs else 1}[self.state]

    @property
    def shown(self) -> Breaker:
        """Return the breaker as programs see it."""
        return Breaker(
            scope=self.scope,
            state=self.state,
            failures=self.failures,
            threshold=self.threshold,
            open_for=seconds_of(self.open_for),
            opened_at=instant_of(self.opened_at),
            open_until=instant_of(self.open_until),
            trial=self.trial[0] if self.trial and self.trial_runs else None,
            openings=self.openings,
            origin=self.origin,
        )


@dataclass(frozen=True, slots=True)
class ActiveLimits:
    """The limits that apply to jobs without being named by them, as a worker last saw them."""

    lanes: frozenset[str] = frozenset()
    scopes: tuple[str, ...] = ()
    cooled: frozenset[str] = frozenset()
    """Queues that were throttled and have not recovered yet."""
    breakers: tuple[str, ...] = ()
    """Circuit breakers that are not closed, or behind which jobs are parked."""
    quotas: bool = False
    """True if jobs are parked until a quota has room for them."""
    verbose_queues: frozenset[str] = frozenset()
    """Queues of which all events are logged, not only outcomes."""


def task_lane(task: str) -> str:
    return f"task:{task}"


def queue_lane(queue: str) -> str:
    return f"queue:{queue}"


def key_lane(tenant: str, key: str) -> str:
    return f"key:{_part(tenant)}:{key}"


def fair_lane(queue: str, tenant: str, key: str) -> str:
    return f"fair:{_part(queue)}:{_part(tenant)}:{key}"


def _part(name: str) -> str:
    """Escape a part of a lane's name: two tenants must never share a lane."""
    return name.replace("%", "%25").replace(":", "%3a")


def rate_lane(scope: str) -> str:
    """Return the lane in which jobs wait for a token of that scope."""
    return f"rate:{scope}"


TENANT_BREAKER: Final = "tenant:"
"""The prefix of breakers that belong to one tenant."""


def tenant_breaker(tenant: str, scope: str) -> str:
    """Return a tenant's own breaker, with the settings of the scope's: its failures affect no other tenant."""
    return f"{TENANT_BREAKER}{_part(tenant)}:{scope}"


def breaker_it_follows(scope: str) -> str | None:
    """Return the breaker whose settings a tenant's own breaker has; None for any other."""
    return scope.split(":", 2)[2] if scope.startswith(TENANT_BREAKER) and scope.count(":") > 1 else None


def keyed_scope(rate: str, tenant: str, key: str) -> str:
    """Return the scope of a key's bucket of a rate, or with "" of the tenant's. Two tenants never share one."""
    whose = f"[{_inside(tenant)}]" if tenant else ""
    return f"{rate}{whose}[{_inside(key)}]"


def _inside(name: str) -> str:
    """Escape a name inside brackets."""
    return name.replace("%", "%25").replace("[", "%5b").replace("]", "%5d")


QUOTA_LANE: Final = "quota:"


def quota_lane(key: str) -> str:
    """Return the lane in which jobs wait for room in the quota of that key."""
    return f"{QUOTA_LANE}{key}"


def breaker_lane(scope: str) -> str:
    """Return the lane in which jobs wait for that circuit breaker."""
    return f"breaker:{scope}"
