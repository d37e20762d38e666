"""Budgets and quotas. Amounts are texts, because they are exact."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

import msgspec

from ..model.budgets import Admission, Admitted, AlreadyAdmitted, ConcurrencyExceeded, RateExceeded
from ..model.budgets import Budget as BudgetRecord
from ..model.budgets import BudgetLine as LineRecord
from ..model.budgets import Quota as QuotaRecord
from ..model.budgets import Spent as SpentRecord
from ..model.values import Instant, instant_of
from .bulk import Changed


class BudgetLine(msgspec.Struct, frozen=True, kw_only=True):
    """One dimension of a budget. Without a limit it is only counted."""

    dimension: str
    limit: str | None
    soft: str | None
    spent: str
    reserved: str
    left: str | None
    lifetime: str
    soft_breaches: int
    hard_breaches: int


class JobSpent(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts that a job has spent, or that were given back of them, by budget and dimension."""

    job_id: str
    spent: dict[str, dict[str, str]]


def of_job_spent(job_id: str, spent: Mapping[str, Mapping[str, Decimal]]) -> JobSpent:
    shown = {budget: {name: f"{n:f}" for name, n in amounts.items()} for budget, amounts in spent.items()}
    return JobSpent(job_id=job_id, spent=shown)


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A budget: its limits, and the amounts spent. `blocked` jobs wait for room in it."""

    name: str
    tenant: str
    within: str | None
    every: float | None
    cron: str | None
    zone: str
    next_reset: Instant | None
    reset_at: Instant | None
    resets: int
    breached_at: Instant | None
    blocked: int
    origin: str
    dimensions: list[BudgetLine]


class BudgetChanged(Changed, frozen=True, kw_only=True):
    """A budget after it was set or raised."""

    budget: Budget


class Crossed(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, soft or hard, that a spend has just crossed."""

    budget: str
    dimension: str
    kind: str
    limit: str
    spent: str


class Spent(Changed, frozen=True, kw_only=True):
    """The result of a spend. `again` is true where the same key was recorded before."""

    again: bool
    crossed: list[Crossed]


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """So many within a window of seconds, and so many at once; null is without that limit."""

    name: str
    tenant: str
    limit: int | None
    window: float | None
    concurrency: int | None
    used: int
    active: int
    admitted: int
    refused: int
    blocked: int
    origin: str


class QuotaChanged(Changed, frozen=True, kw_only=True):
    """A quota after it was set."""

    quota: Quota


class Admittance(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a quota: admitted or not, and if not, when there is room again or how many are active."""

    admitted: bool
    outcome: Literal["admitted", "already_admitted", "rate_exceeded", "concurrency_exceeded"]
    retry_after: float | None = None
    active: int | None = None


def of_budget(budget: BudgetRecord) -> Budget:
    return Budget(
        name=budget.name,
        tenant=budget.tenant,
        within=budget.within,
        every=budget.every,
        cron=budget.cron,
        zone=budget.zone,
        next_reset=instant_of(budget.next_reset),
        reset_at=instant_of(budget.reset_at),
        resets=budget.resets,
        breached_at=instant_of(budget.breached_at),
        blocked=budget.blocked,
        origin=budget.origin,
        dimensions=[of_line(line) for line in budget.lines],
    )


def of_line(line: LineRecord) -> BudgetLine:
    return BudgetLine(
        dimension=line.dimension,
        limit=_text(line.limit),
        soft=_text(line.soft),
        spent=f"{line.spent:f}",
        reserved=f"{line.reserved:f}",
        left=_text(line.left),
        lifetime=f"{line.lifetime:f}",
        soft_breaches=line.soft_breaches,
        hard_breaches=line.hard_breaches,
    )


def of_spent(spent: SpentRecord) -> Spent:
    crossed = [
        Crossed(
            budget=one.budget, dimension=one.dimension, kind=one.kind, limit=f"{one.limit:f}", spent=f"{one.spent:f}"
        )
        for one in spent.crossed
    ]
    return Spent(changed=not spent.again, again=spent.again, crossed=crossed)


def of_quota(quota: QuotaRecord) -> Quota:
    return Quota(
        name=quota.name,
        tenant=quota.tenant,
        limit=quota.limit,
        window=quota.window,
        concurrency=quota.concurrency,
        used=quota.used,
        active=quota.active,
        admitted=quota.admitted,
        refused=quota.refused,
        blocked=quota.blocked,
        origin=quota.origin,
    )


def of_admission(answer: Admission) -> Admittance:
    match answer:
        case Admitted():
            return Admittance(admitted=True, outcome="admitted")
        case AlreadyAdmitted():
            return Admittance(admitted=True, outcome="already_admitted")
        case RateExceeded(retry_after):
            return Admittance(admitted=False, outcome="rate_exceeded", retry_after=retry_after)
        case ConcurrencyExceeded(active):
            return Admittance(admitted=False, outcome="concurrency_exceeded", active=active)


def _text(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:f}"
