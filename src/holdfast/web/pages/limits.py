"""Limits and budgets: current use and forms to change them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from urllib.parse import unquote

from ...clock import SECOND, SYSTEM_CLOCK
from ...model.budgets import Budget, BudgetLine, Quota
from ...model.limits import Lane
from ...model.stats import LimitStats
from ...model.values import micros_of
from ..wire.call import Call
from ..wire.operation import Group
from .forms import Nothing
from .frame import Page
from .templates import below

group = Group("Limits", kind="page")

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
        "rates": [(one, waiting.get(("rate", one.scope), 0)) for one in view.buckets],
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
