"""Explains why a budget or a quota holds a job back, and what would release it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..clock import SECOND
from ..model.budget import Budget, Quota
from .amounts import exact
from .durations import said
from .reach import Reason


@dataclass(frozen=True, slots=True)
class Scarcity:
    """The amount that a blocked job asked for, and the room for it now; neither where the budget or quota is gone."""

    kind: str
    name: str
    asked: Mapping[str, int]
    budget: Budget | None = None
    quota: Quota | None = None
    opens_in: int | None = None
    """Microseconds until the window of the quota has room."""


def scarce(found: Scarcity, now: int) -> list[Reason]:
    if found.budget is not None:
        return _budget(found.budget, found.asked, now)
    if found.quota is not None:
        return [_quota(found.quota, found.opens_in or 0)]
    return [
        Reason(f"{found.kind}_unknown", f"there is no {found.kind} {found.name!r} any more; it is about to be told")
    ]


def _budget(budget: Budget, asked: Mapping[str, int], now: int) -> list[Reason]:
    reasons: list[Reason] = []
    for line in budget.lines:
        wanted = exact(asked.get(line.dimension, 0))
        if line.left is None or line.limit is None or wanted <= line.left:
            continue
        text = (
            f"budget {budget.name!r} has {line.left:f} of {line.limit:f} {line.dimension} left "
            f"({line.spent:f} spent, {line.reserved:f} reserved) and it asks for {wanted:f}"
        )
        reasons.append(Reason("budget_exhausted", text))
        reasons.append(
            Reason("released_by", _way_out(budget, line.dimension, wanted > line.limit, bool(line.reserved), now))
        )
    return reasons or [Reason("budget", f"budget {budget.name!r} has room for it again; it is about to go on")]


def _way_out(budget: Budget, dimension: str, never_fits: bool, is_reserved: bool, now: int) -> str:
    whose = f" --tenant {budget.tenant}" if budget.tenant else ""
    ways = [f"a raise: holdfast budgets raise {budget.name} {dimension}=…{whose}"]
    if not never_fits:
        if is_reserved:
            ways.append("the end of runs that hold reservations")
        if budget.next_reset is not None:
            ways.append(f"its reset in {max(0, budget.next_reset - now) / SECOND:.0f} s")
        else:
            ways.append(f"a reset: holdfast budgets reset {budget.name}{whose}")
    return "it goes on after " + ", or ".join(ways)


def _quota(quota: Quota, opens_in: int) -> Reason:
    if opens_in:
        text = f"quota {quota.name!r} has let in as many as its window allows; there is room in {said(opens_in)}"
        return Reason("quota", f"{text}, or after a raise: holdfast quotas set {quota.name}")
    if quota.concurrency is None or quota.active < quota.concurrency:
        return Reason("quota", f"quota {quota.name!r} has room for it again; it is about to go on")
    text = f"quota {quota.name!r} has {quota.active} of {quota.concurrency} active; it goes on when one of them ends"
    return Reason("quota_concurrency", text)
