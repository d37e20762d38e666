"""Budgets: what may be spent, and what was."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import msgspec

from ...client.budgets import Budgets
from ...shapes.acting import Changed
from ...shapes.budgets import Budget, BudgetChanged, JobSpent, Spent, of_budget, of_job_spent, of_spent
from ...shapes.pages import Page, part, place_at
from ..wire.call import Call
from ..wire.failures import Refused
from ..wire.operation import Group
from .types import Acting, Cursor, Name, PageSize, Reason

group = Group("Budgets", "What may be spent of tokens, money or anything else, and what was. Amounts are exact.")

Amount = (
    Annotated[int, msgspec.Meta(ge=0, le=10**12)]
    | Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    | Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,13}(\.[0-9]{1,6})?$", description="A decimal number.")]
)
Amounts = Annotated[dict[Name, Amount], msgspec.Meta(min_length=1, max_length=64)]
Limits = Annotated[dict[Name, Amount | None], msgspec.Meta(max_length=64)]
Text = Annotated[str, msgspec.Meta(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Whose(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of which tenant; left out, of none, or of the caller's own."""

    tenant: Name | None = None


class WhoseAndWhy(Whose, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same, and why."""

    reason: Reason = ""


class WhoseListing(Whose, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of which tenant, left out of all, and which part of the list."""

    limit: PageSize = 100
    after: Cursor | None = None


class BudgetTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits by dimension, null removes one; what is left out stays.

    `every` is a time such as 1d, a cron expression in `zone`, or never. `within` is the budget that it is a part of,
    an empty text of none.
    """

    limits: Limits = {}
    soft: Limits = {}
    every: Text | None = None
    zone: Text | None = None
    within: Text | None = None
    reason: Reason = ""


class Raise(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits that are higher than now."""

    limits: Amounts
    reason: Reason = ""


class Spend(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Amounts by dimension. The same `key` again within a day changes nothing."""

    amounts: Amounts
    key: Name | None = None


@group.get("/budgets", needs="read")
async def list_budgets(call: Call, query: WhoseListing) -> Page[Budget]:
    """Every budget and how it stands."""
    after: Any = None if query.after is None else place_at(query.after, 2)
    found = await _budgets(call, query.tenant).alist(after=after, limit=query.limit)
    return part(found, query.limit, of_budget, lambda one: (one.tenant, one.name))


@group.get("/budgets/{name}", needs="read")
async def get_budget(call: Call, name: Name, query: Whose) -> Budget:
    """One budget, with what was spent in its lifetime."""
    return of_budget(await _budgets(call, query.tenant).aget(name))


@group.put("/budgets/{name}", needs="operate")
async def set_budget(call: Call, name: Name, query: Whose, body: BudgetTerms) -> BudgetChanged:
    """Make or change a budget. What is left out stays as it is."""
    budgets = _budgets(call, query.tenant)
    changed = await budgets.aset(
        name,
        _exact(body.limits),
        soft=_exact(body.soft),
        every=body.every,
        zone=body.zone,
        within=body.within,
        actor=call.actor,
        reason=body.reason,
    )
    return BudgetChanged(changed=changed, budget=of_budget(await budgets.aget(name)))


@group.post("/budgets/{name}/raise", needs="operate")
async def raise_budget(call: Call, name: Name, query: Whose, body: Raise) -> BudgetChanged:
    """Set limits that are higher than now, and let go the jobs that fit."""
    budgets, limits = _budgets(call, query.tenant), _exact(body.limits)
    before = await budgets.aget(name)
    after = await budgets.araise(name, limits, actor=call.actor, reason=body.reason)
    changed = [line.limit for line in before.lines] != [line.limit for line in after.lines]
    return BudgetChanged(changed=changed, budget=of_budget(after))


@group.post("/budgets/{name}/reset", needs="operate")
async def reset_budget(call: Call, name: Name, query: Whose, body: Acting) -> Changed:
    """Begin a budget anew, and let go the jobs that fit. Its lifetime and its schedule stay."""
    done = await _budgets(call, query.tenant).areset(name, actor=call.actor, reason=body.reason)
    return Changed(changed=done)


@group.delete("/budgets/{name}", needs="operate")
async def delete_budget(call: Call, name: Name, query: WhoseAndWhy) -> Changed:
    """Forget a budget. Jobs that name it fail from then on."""
    removed = await _budgets(call, query.tenant).adelete(name, actor=call.actor, reason=query.reason)
    return Changed(changed=removed)


@group.post("/budgets/{name}/spend", needs="operate")
async def spend_budget(call: Call, name: Name, query: Whose, body: Spend) -> Spent:
    """Count a spend, whatever the limits say; which of them it crossed."""
    return of_spent(await _budgets(call, query.tenant).aspend(name, _exact(body.amounts), key=body.key))


def _budgets(call: Call, tenant: str | None) -> Budgets:
    budgets = call.client.budgets
    return budgets if tenant is None else budgets.of(tenant)


def _exact(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(name, value) for name, value in given.items()}


def _number(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value != value.strip():
        # A pattern's $ also stands before a line break at the end.
        raise Refused(400, "invalid", f"the body: the amount of {name} ends with a line break")
    return Decimal(value)


@group.get("/jobs/{job_id}/spent", needs="read")
async def spent_by_job(call: Call, job_id: Name) -> JobSpent:
    """What a job has spent, by budget and dimension."""
    return of_job_spent(job_id, await call.client.budgets.aspent_by(job_id))


@group.post("/jobs/{job_id}/give-back", needs="operate")
async def give_back(call: Call, job_id: Name, body: Acting) -> JobSpent:
    """Take what an ended job has spent off its budgets; what was taken off. Repeated, it takes nothing more."""
    done = await call.client.budgets.agive_back(job_id, actor=call.actor, reason=body.reason)
    return of_job_spent(job_id, done)
