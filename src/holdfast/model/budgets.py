"""Budgets and quotas, and the results of using them. Amounts are exact, and texts in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from .values import Instant

BUDGET_EXHAUSTED = "budget_exhausted"
"""The reason of a job that is blocked until a budget has room for it."""
QUOTA = "quota"
"""The reason of a job that is blocked until a quota has room for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    """One dimension of a budget."""

    dimension: str
    limit: Decimal | None
    """None is no limit: it is only counted."""
    soft: Decimal | None
    spent: Decimal
    reserved: Decimal
    """Reserved by running jobs."""
    left: Decimal | None
    """The amount that could be reserved now; negative if more was spent than allowed, None without a limit."""
    lifetime: Decimal
    """Spent since the budget was created, regardless of resets."""
    soft_breaches: int
    hard_breaches: int
    """The number of reservations that the limit refused, and of spends that exceeded it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A budget: the limits, and the amounts spent. `budget["tokens"]` is one of its dimensions."""

    name: str
    tenant: str
    within: str | None
    """The budget that it is a part of."""
    every: float | None
    """Seconds between two resets."""
    cron: str | None
    zone: str
    next_reset: Instant | None
    reset_at: Instant | None
    resets: int
    breached_at: Instant | None
    blocked: int
    """Jobs that wait for room in it."""
    origin: str
    dimensions: tuple[BudgetLine, ...]

    def __getitem__(self, dimension: str) -> BudgetLine:
        for line in self.dimensions:
            if line.dimension == dimension:
                return line
        raise KeyError(dimension)

    @property
    def is_exhausted(self) -> bool:
        """True if nothing is left of a dimension."""
        return any(line.left is not None and line.left <= 0 for line in self.dimensions)


@dataclass(frozen=True, slots=True)
class Crossed:
    """A limit that a spend has just crossed."""

    budget: str
    dimension: str
    kind: str
    """soft or hard."""
    limit: Decimal
    spent: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The result of a spend. It is always recorded."""

    changed: bool
    again: bool
    """True if the same key was recorded before; nothing was changed."""
    crossed: tuple[Crossed, ...]


@dataclass(frozen=True, slots=True)
class JobSpent:
    """The amounts that a job has spent, or that were returned of them, by budget and dimension."""

    job_id: str
    spent: Mapping[str, Mapping[str, Decimal]]


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A refused reservation: this dimension of this budget has too little left. Nothing was reserved."""

    budget: str
    dimension: str
    asked: Decimal
    left: Decimal
    limit: Decimal

    def __str__(self) -> str:
        return (
            f"budget {self.budget!r} has {self.left:f} of {self.limit:f} {self.dimension} left, "
            f"and {self.asked:f} were asked for"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A number of admissions within a window, and a number active at once; None is no such limit."""

    name: str
    tenant: str
    limit: int | None
    window: float | None
    """Seconds."""
    concurrency: int | None
    used: int
    """Admissions within the window that ends now."""
    active: int
    admitted: int
    """Since the quota was created."""
    refused: int
    blocked: int
    """Jobs that wait until fewer are active."""
    origin: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """It is admitted, and counts from now on."""


@dataclass(frozen=True, slots=True)
class AlreadyAdmitted:
    """It was admitted before, within this window, and counts once."""


@dataclass(frozen=True, slots=True)
class RateExceeded:
    """As many as allowed were admitted within the window. There is room again after this many seconds."""

    retry_after: float


@dataclass(frozen=True, slots=True)
class ConcurrencyExceeded:
    """As many as allowed are active. There is room again when one is released."""

    active: int


Admission: TypeAlias = "Admitted | AlreadyAdmitted | RateExceeded | ConcurrencyExceeded"

Place: TypeAlias = "tuple[str, str]"
"""A tenant and a name: the position at which a list continues."""


def place_of(one: Budget | Quota | Place) -> Place:
    """Return the position of a budget or quota in the list of its kind."""
    return one if isinstance(one, tuple) else (one.tenant, one.name)
