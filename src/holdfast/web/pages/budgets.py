"""Operator actions on budgets: raise limits, and reset."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final

from ...client.budgets import Budgets
from ...errors import InvalidInput
from ..wire.call import Call
from ..wire.operation import Group
from .forms import ActForm, Word, ask, back_at
from .frame import Done, Page

group = Group("Budget actions", kind="page")

_HERE: Final = "/limits#budgets"


class RaiseForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A higher limit for one dimension."""

    tenant: Word = ""
    dimension: Word
    limit: Word


class ResetForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tenant of the budget."""

    tenant: Word = ""


@group.post("/limits/budgets/{name}/raise", needs="operate")
@back_at(_HERE)
async def raise_limit(call: Call, name: str, form: RaiseForm) -> Done | Page:
    """Raise a limit, and release the waiting jobs that now fit."""
    wanted = _amount(form.limit)
    budgets = _of(call, form.tenant)
    before = await budgets.aget(name)
    was = next((line.limit for line in before.dimensions if line.dimension == form.dimension), None)
    if was == wanted:
        return Done(_HERE, f"The limit of {form.dimension} is already {wanted:f}; nothing changed.", ok=False)
    after = await budgets.araise(name, {form.dimension: wanted}, actor=call.actor, reason=form.reason)
    freed = before.blocked - after.blocked
    more = f" {freed:,} waiting jobs released." if freed > 0 else ""
    return Done(_HERE, f"{name}: new limit of {wanted:f} {form.dimension}.{more}")


@group.post("/limits/budgets/{name}/reset", needs="operate")
@back_at(_HERE)
async def reset(call: Call, name: str, form: ResetForm) -> Done | Page:
    """Reset the budget now."""
    if not form.confirmed:
        text = "Spending is set to zero, and waiting jobs that fit start. The reset schedule is unchanged."
        return ask(call, form, title=f"Reset {name}?", text=text, go="Reset", back=_HERE, page="limits")
    done = await _of(call, form.tenant).areset(name, actor=call.actor, reason=form.reason)
    say = f"{name} was reset." if done else f"Nothing was spent on {name}; nothing changed."
    return Done(_HERE, say, ok=done)


def _of(call: Call, tenant: str) -> Budgets:
    return call.client.budgets.of(tenant) if tenant else call.client.budgets


def _amount(text: str) -> Decimal:
    try:
        return Decimal(text.strip().replace(",", "").replace("\u202f", ""))
    except InvalidOperation:
        raise InvalidInput(f"the limit is {text!r}; give a number") from None
