"""Limits and budgets: current use and forms to change them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal
from urllib.parse import unquote

from ...clock import SECOND, SYSTEM_CLOCK
from ...errors import InvalidInput
from ...model.budgets import Budget, BudgetLine, Quota
from ...model.limits import Lane
from ...model.stats import LimitStats
from ...model.values import micros_of
from ..wire.call import Call
from ..wire.operation import Group
from .forms import ActForm, Nothing, Word, ask, back_at, number_of, span_of, wanted_number
from .frame import Done, Page
from .templates import below

group = Group("Limits", kind="page")

_HERE: Final = "/limits"
_WHAT: Final = "the limits of the whole store"
_SHOWN: Final = 200
_MINUTE: Final = 60 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """A concurrency limit: of a task, of a queue, of a key of some tenant, or of a key's share of a queue."""

    key: str
    name: str
    kind: str
    tenant: str
    queue: str
    running: int
    capacity: int | None
    waiting: int
    origin: str
    is_standing: bool
    """True if an operator set it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow:
    """One dimension of a budget. Its parts are shares of the limit, for a bar."""

    line: BudgetLine
    spent_share: float
    reserved_share: float
    soft_share: float | None
    tone: str
    burn: Decimal | None
    """Spending per hour since the last reset."""
    lasts_until: int | None
    """The time at which it runs out at this rate, if that is before the next reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    """A budget and its dimensions."""

    budget: Budget
    path: str
    lines: list[LineRow]


@group.get("/limits", needs="read")
async def show(call: Call, query: Nothing) -> Page:
    """Show every limit with its use; for a tenant, only its own."""
    now = SYSTEM_CLOCK.now()
    if call.identity.tenant:
        return Page("limits.html", await _of_tenant(call, now))
    app = call.app
    view, stats, quotas, budgets = await asyncio.gather(
        app.limits.ashow(), app.stats.alimits(), app.quotas.alist(limit=_SHOWN), app.budgets.alist(limit=_SHOWN)
    )
    waiting = {(one.kind, one.key): one.waiting for one in stats}
    shows: dict[str, Any] = {
        "whole": True,
        "lanes": lanes_of(view.lanes, stats),
        "totals": sorted(view.totals.items()),
        "rates": [(one, waiting.get(("rate", one.scope), 0)) for one in view.rates],
        "breakers": [(one, waiting.get(("breaker", one.scope), 0)) for one in view.breakers],
    }
    return Page("limits.html", {**_common(quotas, budgets, now), **shows})


async def _of_tenant(call: Call, now: int) -> dict[str, Any]:
    client = call.app.scoped(call.identity.tenant)
    lanes, quotas, budgets = await asyncio.gather(
        client.limits.alist(), client.quotas.alist(limit=_SHOWN), client.budgets.alist(limit=_SHOWN)
    )
    own: dict[str, Any] = {"whole": False, "lanes": lanes_of(lanes, ()), "totals": [], "rates": [], "breakers": []}
    return {**_common(quotas, budgets, now), **own}


def _common(quotas: Sequence[Quota], budgets: Sequence[Budget], now: int) -> dict[str, Any]:
    return {
        "page": "limits",
        "quotas": quotas,
        "budgets": [budget_row(one, now) for one in budgets],
        "full": _SHOWN in (len(quotas), len(budgets)),
        "shown": _SHOWN,
    }


def lanes_of(lanes: Sequence[Lane], stats: Sequence[LimitStats]) -> list[LaneRow]:
    """Return the concurrency limits, most used first."""
    waiting = {one.key: one.waiting for one in stats if one.kind == "concurrency"}
    rows = [_lane(lane, waiting.get(lane.key, 0)) for lane in lanes]
    return sorted(rows, key=lambda row: (-row.waiting, -row.running / (row.capacity or 1), row.key))[:_SHOWN]


def _lane(lane: Lane, waiting: int) -> LaneRow:
    kind, _, rest = lane.key.partition(":")
    *before, name = rest.split(":", {"key": 1, "fair": 2}.get(kind, 0))
    places = [unquote(part) for part in before]
    return LaneRow(
        key=lane.key,
        name=name,
        kind=kind,
        tenant=places[-1] if places else "",
        queue=places[0] if kind == "fair" and places else "",
        running=lane.running,
        capacity=lane.capacity,
        waiting=waiting,
        origin=lane.origin,
        is_standing=lane.standing and kind in ("task", "queue"),
    )


def budget_row(budget: Budget, now: int) -> BudgetRow:
    """Return the row of a budget, with its forecast."""
    began = began_at(budget)
    lines = [_line(line, began, micros_of(budget.next_reset), now) for line in budget.dimensions]
    return BudgetRow(budget=budget, path=below("limits", "budgets", budget.name), lines=lines)


def began_at(budget: Budget) -> int | None:
    """Return the start of this period; None if unknown."""
    if budget.every is not None and budget.next_reset is not None:
        return max(micros_of(budget.next_reset) - round(budget.every * SECOND), micros_of(budget.reset_at) or 0)
    return micros_of(budget.reset_at)


def _line(line: BudgetLine, began: int | None, ends: int | None, now: int) -> LineRow:
    # Rounded to the minute, so that a live page does not differ by its age alone.
    elapsed = 0 if began is None else (now - began) // _MINUTE * _MINUTE
    burn = None if elapsed <= 0 else line.spent * 3600 * SECOND / elapsed
    limit = line.limit
    spent, reserved = _share(line.spent, limit), _share(line.reserved, limit)
    soft = None if line.soft is None or not limit else _share(line.soft, limit)
    over_soft = line.soft is not None and line.spent >= line.soft
    used = spent + reserved
    tone = "accent" if limit is None else "bad" if used >= 1 else "warn" if over_soft or used >= 0.8 else "accent"
    return LineRow(
        line=line,
        spent_share=min(1.0, spent),
        reserved_share=max(0.0, min(1.0 - min(1.0, spent), reserved)),
        soft_share=soft,
        tone=tone,
        burn=burn,
        lasts_until=_lasts(line, burn, ends, now),
    )


def _lasts(line: BudgetLine, burn: Decimal | None, ends: int | None, now: int) -> int | None:
    if line.left is None or line.left <= 0 or not burn:
        return None
    minutes = int(line.left / burn * 60)
    until = (now // _MINUTE + minutes) * _MINUTE
    return until if minutes < 60 * 24 * 365 and (ends is None or until < ends) else None


def _share(amount: Decimal, limit: Decimal | None) -> float:
    if limit is None:
        return 0.0
    return float(amount / limit) if limit else 1.0


# -- actions


class LaneForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The concurrency limit of a task or queue."""

    kind: Literal["task", "queue"]
    name: Word
    n: Word = ""


class RateForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A token bucket."""

    name: Word
    capacity: Word = ""
    per_second: Word = ""


class BreakerForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A breaker: it opens for a while after this many consecutive failures."""

    name: Word
    failures: Word = ""
    open_for: Word = ""


class QuotaForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A quota: a number of jobs per window, and a concurrency. Empty means no limit."""

    name: Word
    tenant: Word = ""
    limit: Word = ""
    window: Word = ""
    concurrency: Word = ""


@group.post("/limits/lanes", needs="operate")
@back_at("/limits#lanes")
async def set_lane(call: Call, form: LaneForm) -> Done | Page:
    """Set the concurrency limit of a task or queue."""
    limits = call.whole(_WHAT).limits
    n = wanted_number("the concurrency", form.n)
    task, queue = (form.name, None) if form.kind == "task" else (None, form.name)
    await limits.aset_concurrency(n, task=task, queue=queue, actor=call.actor, reason=form.reason)
    return Done("/limits#lanes", f"Concurrency of {form.kind} {form.name} set to {n}.")


@group.post("/limits/lanes/clear", needs="operate")
@back_at("/limits#lanes")
async def clear_lane(call: Call, form: LaneForm) -> Done | Page:
    """Remove the concurrency limit of a task or queue."""
    if not form.confirmed:
        text = "Concurrency is then bounded only by worker slots."
        return ask(
            call, form, title=f"Remove the limit of {form.name}?", text=text, go="Remove", back=_HERE, page="limits"
        )
    task, queue = (form.name, None) if form.kind == "task" else (None, form.name)
    limits = call.whole(_WHAT).limits
    done = await limits.aclear_concurrency(task=task, queue=queue, actor=call.actor, reason=form.reason)
    return _said("/limits#lanes", done, "Limit removed.", "There was no such limit; nothing changed.")


@group.post("/limits/rates", needs="operate")
@back_at("/limits#rates")
async def set_rate(call: Call, form: RateForm) -> Done | Page:
    """Create or change a token bucket."""
    most, refill = _amount("the capacity", form.capacity), _amount("the rate per second", form.per_second)
    limits = call.whole(_WHAT).limits
    await limits.aset_rate(form.name, capacity=most, per_second=refill, actor=call.actor, reason=form.reason)
    return Done("/limits#rates", f"{form.name}: {refill:g} per second, burst of {most:g}.")


@group.post("/limits/rates/clear", needs="operate")
@back_at("/limits#rates")
async def clear_rate(call: Call, form: RateForm) -> Done | Page:
    """Remove a token bucket."""
    if not form.confirmed:
        text = "Jobs that use it wait until the rate is set again."
        return ask(
            call, form, title=f"Remove the rate {form.name}?", text=text, go="Remove", back=_HERE, page="limits",
            danger=True,
        )  # fmt: skip
    done = await call.whole(_WHAT).limits.aclear_rate(form.name, actor=call.actor, reason=form.reason)
    return _said("/limits#rates", done, "Rate removed.", "There was no such rate; nothing changed.")


@group.post("/limits/breakers", needs="operate")
@back_at("/limits#breakers")
async def set_breaker(call: Call, form: BreakerForm) -> Done | Page:
    """Create or change a breaker."""
    failures = wanted_number("the number of failures", form.failures)
    open_for = span_of("the time it stays open", form.open_for)
    if open_for is None:
        raise InvalidInput("the time it stays open is missing; enter seconds, or for example 30s or 5m")
    breakers = call.whole(_WHAT).breakers
    await breakers.aset(form.name, failures=failures, open_for=open_for, actor=call.actor, reason=form.reason)
    return Done("/limits#breakers", f"{form.name} opens for {open_for:g} s after {failures} failures in a row.")


@group.post("/limits/breakers/trip", needs="operate")
@back_at("/limits#breakers")
async def trip(call: Call, form: BreakerForm) -> Done | Page:
    """Open a breaker by hand."""
    if not form.confirmed:
        text = "Jobs that use it stop starting; after a while one trial job runs. Reset closes it."
        return ask(call, form, title=f"Trip {form.name}?", text=text, go="Trip", back=_HERE, page="limits")
    breakers = call.whole(_WHAT).breakers
    before = await breakers.aget(form.name)
    rest = span_of("the time it stays open", form.open_for)
    await breakers.atrip(form.name, rest, actor=call.actor, reason=form.reason)
    again = before.state == "open"
    return Done(
        "/limits#breakers", f"{form.name} {'was already open; it now stays open longer' if again else 'is open'}."
    )


@group.post("/limits/breakers/reset", needs="operate")
@back_at("/limits#breakers")
async def reset(call: Call, form: BreakerForm) -> Done | Page:
    """Close a breaker by hand."""
    breakers = call.whole(_WHAT).breakers
    before = await breakers.aget(form.name)
    if before.state == "closed" and not before.failures:
        return Done("/limits#breakers", f"{form.name} was already closed; nothing changed.", ok=False)
    await breakers.areset(form.name, actor=call.actor, reason=form.reason)
    return Done("/limits#breakers", f"{form.name} is closed; waiting jobs can start.")


@group.post("/limits/quotas", needs="operate")
@back_at("/limits#quotas")
async def set_quota(call: Call, form: QuotaForm) -> Done | Page:
    """Create or change a quota."""
    quotas = call.client.quotas.of(form.tenant) if form.tenant else call.client.quotas
    changed = await quotas.aset(
        form.name,
        limit=number_of("the limit", form.limit),
        window=span_of("the window", form.window),
        concurrency=number_of("the concurrency", form.concurrency),
        actor=call.actor,
        reason=form.reason,
    )
    return _said("/limits#quotas", changed, f"{form.name} is set.", "Already set; nothing changed.")


def _amount(what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{what} is {text!r}; give a number") from None


def _said(to: str, done: bool, say: str, otherwise: str) -> Done:
    return Done(to, say if done else otherwise, ok=done)
