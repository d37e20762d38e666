"""Budgets: limits on spending, and the amounts spent."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import msgspec

from ...client.budgets import Budgets
from ...model.budgets import Budget, JobSpent, Spent
from ..wire.call import Call
from ..wire.failures import Refused
from ..wire.operation import Group
from .paging import Page, part, place_at
from .types import Acting, Changed, Cursor, Name, PageSize, Reason

group = Group(
    "Budgets", "Limits on spending of tokens, money or anything else, and the amounts spent. Amounts are exact."
)

Amount = (
    Annotated[int, msgspec.Meta(ge=0, le=10**12)]
    | Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    | Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,13}(\.[0-9]{1,6})?$", description="A decimal number.")]
)
Amounts = Annotated[dict[Name, Amount], msgspec.Meta(min_length=1, max_length=64)]
Limits = Annotated[dict[Name, Amount | None], msgspec.Meta(max_length=64)]
Text = Annotated[str, msgspec.Meta(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]


class TenantQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tenant; left out, none or the caller's own."""

    tenant: Name | None = None


class TenantAndReason(TenantQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tenant and a reason."""

    reason: Reason = ""


class TenantListing(TenantQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tenant, left out for all, and the position in the list."""

    limit: PageSize = 100
    after: Cursor | None = None


class BudgetTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits by dimension; null removes one, and those left out are unchanged.

    `every` is a duration such as 1d, a cron expression in `zone`, or never. `within` is the parent budget, or an empty
    string for none.
    """

    limits: Limits = {}
    soft: Limits = {}
    every: Text | None = None
    zone: Text | None = None
    within: Text | None = None
    reason: Reason = ""


class Raise(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """New, higher limits."""

    limits: Amounts
    reason: Reason = ""


class Spend(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Amounts by dimension. Repeating the same `key` within a day changes nothing."""

    amounts: Amounts
    key: Name | None = None


class BudgetChanged(Changed, frozen=True, kw_only=True):
    """A budget after it was set or raised."""

    budget: Budget


@group.get("/budgets", needs="read")
async def list_budgets(call: Call, query: TenantListing) -> Page[Budget]:
    """List the budgets with their spending."""
    after: Any = None if query.after is None else place_at(query.after, 2)
    found = await _budgets(call, query.tenant).alist(after=after, limit=query.limit)
    return part(found, query.limit, lambda one: (one.tenant, one.name))


@group.get("/budgets/{name}", needs="read")
async def get_budget(call: Call, name: Name, query: TenantQuery) -> Budget:
    """Get a budget, with its lifetime spending."""
    return await _budgets(call, query.tenant).aget(name)


@group.put("/budgets/{name}", needs="operate")
async def set_budget(call: Call, name: Name, query: TenantQuery, body: BudgetTerms) -> BudgetChanged:
    """Create or change a budget. Fields left out are unchanged."""
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
    return BudgetChanged(changed=changed, budget=await budgets.aget(name))


@group.post("/budgets/{name}/raise", needs="operate")
async def raise_budget(call: Call, name: Name, query: TenantQuery, body: Raise) -> BudgetChanged:
    """Raise limits, and release the waiting jobs that now fit."""
    budgets, limits = _budgets(call, query.tenant), _exact(body.limits)
    before = await budgets.aget(name)
    after = await budgets.araise(name, limits, actor=call.actor, reason=body.reason)
    changed = [line.limit for line in before.dimensions] != [line.limit for line in after.dimensions]
    return BudgetChanged(changed=changed, budget=after)


@group.post("/budgets/{name}/reset", needs="operate")
async def reset_budget(call: Call, name: Name, query: TenantQuery, body: Acting) -> Changed:
    """Reset a budget, and release the waiting jobs that now fit.

    Its lifetime spending and its reset schedule are unchanged.
    """
    done = await _budgets(call, query.tenant).areset(name, actor=call.actor, reason=body.reason)
    return Changed(changed=done)


@group.delete("/budgets/{name}", needs="operate")
async def delete_budget(call: Call, name: Name, query: TenantAndReason) -> Changed:
    """Delete a budget. Jobs that use it fail from then on."""
    removed = await _budgets(call, query.tenant).adelete(name, actor=call.actor, reason=query.reason)
    return Changed(changed=removed)


@group.post("/budgets/{name}/spend", needs="operate")
async def spend_budget(call: Call, name: Name, query: TenantQuery, body: Spend) -> Spent:
    """Record spending, whatever the limits; returns the limits it crossed."""
    return await _budgets(call, query.tenant)._aspend_by(call.actor, name, _exact(body.amounts), body.key)


def _budgets(call: Call, tenant: str | None) -> Budgets:
    budgets = call.client.budgets
    return budgets if tenant is None else budgets.of(tenant)


def _exact(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(name, value) for name, value in given.items()}


def _number(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value != value.strip():
        # `$` in a pattern also matches before a trailing line break.
        raise Refused(400, "invalid", f"the body: the amount of {name} ends with a line break")
    return Decimal(value)


@group.get("/jobs/{job_id}/spent", needs="read")
async def spent_by_job(call: Call, job_id: Name) -> JobSpent:
    """Get a job's spending, by budget and dimension."""
    return JobSpent(job_id, await call.client.budgets.aspent_by(job_id))


@group.post("/jobs/{job_id}/give-back", needs="operate")
async def give_back(call: Call, job_id: Name, body: Acting) -> JobSpent:
    """Refund a finished job's spending to its budgets.

    Returns the refunded amounts. Repeating it refunds nothing more.
    """
    done = await call.client.budgets.agive_back(job_id, actor=call.actor, reason=body.reason)
    return JobSpent(job_id, done)
