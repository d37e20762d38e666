"""Arithmetic of budgets: room, reservations and charges. Amounts are millionths."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from ..clock import SECOND
from ..errors import InvalidAmount
from ..model.budgets import Budget, Crossed, Exhausted, Quota
from ..model.schedules import Timing
from ..model.values import micros_of
from ..names import check_name
from .durations import said
from .routing import Reason
from .schedules import next_tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One dimension of a budget, as it is stored."""

    dimension: str
    hard: int | None
    soft: int | None
    spent: int = 0
    lifetime: int = 0
    soft_breaches: int = 0
    hard_breaches: int = 0
    warned: bool = False
    reserved: int = 0
    """Reserved by running jobs."""
    stale: int = 0
    """Reservations of runs that have ended."""

    @property
    def room(self) -> int:
        """The amount that can be reserved. Without a limit, the largest that can be stored."""
        limit = CEILING if self.hard is None else self.hard
        return limit - self.spent - self.reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A budget with its lines by dimension, read in one transaction at `now`."""

    key: str
    tenant: str
    name: str
    parent: str | None
    every: int | None
    expression: str | None
    zone: str
    anchor: int
    next_reset: int | None
    reset_at: int | None
    resets: int
    breached_at: int | None
    origin: str
    now: int
    lines: Mapping[str, Line]

    @property
    def is_due(self) -> bool:
        return self.next_reset is not None and self.next_reset <= self.now

    @property
    def current(self) -> Account:
        """Return the account as it is now: reset if that is due, even if the reset is not written yet."""
        return after_reset(self) if self.is_due else self


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first dimension of a budget that has too little room, and the amounts."""

    key: str
    dimension: str
    asked: int


def refusal(accounts: Mapping[str, Account], asked: Mapping[tuple[str, str], int]) -> Refusal | None:
    """Return the first refusal, in a fixed order; None if everything fits."""
    for (key, dimension), amount in sorted(asked.items()):
        if amount > accounts[key].lines[dimension].room:
            return Refusal(key, dimension, amount)
    return None


def set_aside(accounts: Mapping[str, Account], asked: Mapping[tuple[str, str], int]) -> dict[str, Account]:
    """Return the budgets with these amounts reserved."""
    found = dict(accounts)
    for (key, dimension), amount in asked.items():
        line = found[key].lines[dimension]
        lines = {**found[key].lines, dimension: replace(line, reserved=line.reserved + amount)}
        found[key] = replace(found[key], lines=lines)
    return found


def exhausted(account: Account, refused: Refusal) -> Exhausted:
    line = account.lines[refused.dimension]
    limit = CEILING if line.hard is None else line.hard
    return Exhausted(account.name, line.dimension, exact(refused.asked), exact(line.room), exact(limit))


def breached(line: Line, times: int) -> Line:
    """Count reservations that were refused."""
    return replace(line, hard_breaches=line.hard_breaches + times)


def give_back(line: Line, amount: int) -> Line:
    """Refund a spend. The total over the budget's lifetime stays."""
    return replace(line, spent=max(0, line.spent - amount))


def charge(line: Line, amount: int) -> Line:
    """Charge a spend, which always counts. Each limit that it crosses is recorded once."""
    spent = min(CEILING, line.spent + amount)
    softly = line.soft is not None and not line.warned and spent > line.soft
    hardly = line.hard is not None and line.spent <= line.hard < spent
    return replace(
        line,
        spent=spent,
        lifetime=min(CEILING, line.lifetime + amount),
        warned=line.warned or softly,
        soft_breaches=line.soft_breaches + softly,
        hard_breaches=line.hard_breaches + hardly,
    )


def crossed(budget: str, before: Line, after: Line) -> list[Crossed]:
    """Return the limits that a charge crossed."""
    found: list[Crossed] = []
    if after.soft is not None and after.soft_breaches > before.soft_breaches:
        found.append(Crossed(budget, after.dimension, "soft", exact(after.soft), exact(after.spent)))
    if after.hard is not None and after.hard_breaches > before.hard_breaches:
        found.append(Crossed(budget, after.dimension, "hard", exact(after.hard), exact(after.spent)))
    return found


def after_reset(account: Account) -> Account:
    """Reset the amounts spent. Totals over the budget's lifetime stay."""
    lines = {name: replace(line, spent=0, warned=False) for name, line in account.lines.items()}
    return replace(
        account,
        lines=lines,
        breached_at=None,
        reset_at=account.now,
        resets=account.resets + 1,
        next_reset=next_reset(account.every, account.expression, account.zone, account.anchor, account.now),
    )


def next_reset(every: int | None, expression: str | None, zone: str, anchor: int, now: int) -> int | None:
    if every is None and expression is None:
        return None
    return next_tick(Timing(expression=expression, every=every, zone=zone, anchor=anchor), now)


def with_limits(line: Line, hard: int | None, soft: int | None) -> Line:
    """Set limits. A soft limit above the amount spent can be crossed again."""
    return replace(line, hard=hard, soft=soft, warned=line.warned and soft is not None and line.spent > soft)


def fitting(waiting: Iterable[tuple[str, Mapping[str, int]]], lines: Mapping[str, Line]) -> Sequence[str]:
    """Return the jobs, in order, whose amounts fit together into what is left."""
    room = {name: line.room for name, line in lines.items()}
    chosen: list[str] = []
    for job_id, asked in waiting:
        # A deleted dimension refuses nothing here: the run itself fails.
        if all(amount <= room.get(name, amount) for name, amount in asked.items()):
            chosen.append(job_id)
            for name, amount in asked.items():
                if name in room:
                    room[name] -= amount
    return chosen


Amount: TypeAlias = "int | float | Decimal"
Amounts: TypeAlias = "Mapping[str, Amount]"

MICRO: Final = 1_000_000
LARGEST: Final = 10**12
# The sum of many amounts must still fit into 64 bits.
CEILING: Final = 9 * 10**18
# Beyond this no trailing zero is meant.
_DIGITS: Final = 60


def check_amounts(what: str, given: object, *, zero: bool = False) -> dict[str, int]:
    """Check amounts by dimension; return millionths, sorted by dimension. At least one; 0 only with `zero`."""
    if not isinstance(given, Mapping) or not given:
        raise InvalidAmount(f"{what} needs amounts by dimension, such as tokens=4000")
    found = {
        check_name("the dimension", name): check_amount(f"{what}: {name}", value, zero=zero)
        for name, value in given.items()
    }
    return dict(sorted(found.items()))


def check_reserve(given: object) -> dict[str, dict[str, int]] | None:
    """Check the amounts that a job reserves before it starts, by budget and dimension."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise InvalidAmount(f"reserve is {given!r}; give amounts by budget, such as {{'team': {{'tokens': 4000}}}}")
    found = {
        check_name("the budget's name", name): check_amounts(f"reserve in {name!r}", amounts)
        for name, amounts in given.items()
    }
    return found or None


def check_amount(what: str, value: object, *, zero: bool = False) -> int:
    """Check one amount; return millionths."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise InvalidAmount(f"{what} must be a number, not {type(value).__qualname__}")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidAmount(f"{what} is {value}; give a finite number")
        value = Decimal(repr(value))
    if isinstance(value, Decimal) and not value.is_finite():
        raise InvalidAmount(f"{what} is {value}; give a finite number")
    if value < 0 or (value == 0 and not zero):
        raise InvalidAmount(f"{what} is {value}; give {'0 or more' if zero else 'more than 0'}")
    if value > LARGEST:
        raise InvalidAmount(f"{what} is too large; give at most {LARGEST:,}")
    return _millionths(what, value)


def exact(millionths: int) -> Decimal:
    """Return an amount as people read it, without trailing zeros."""
    whole, rest = divmod(abs(millionths), MICRO)
    sign = "-" if millionths < 0 else ""
    return Decimal(f"{sign}{whole}.{rest:06d}".rstrip("0").rstrip("."))


def in_units(text: str) -> str:
    """Convert stored amounts by dimension, which are millionths, to JSON that people read."""
    shown = (f"{json.dumps(name)}: {exact(millionths):f}" for name, millionths in json.loads(text).items())
    return "{" + ", ".join(shown) + "}"


def _millionths(what: str, value: int | Decimal) -> int:
    if isinstance(value, int):
        return value * MICRO
    exponent = value.as_tuple().exponent
    scaled = Fraction(value) * MICRO if isinstance(exponent, int) and exponent >= -_DIGITS else None
    if scaled is None or scaled.denominator != 1:
        raise InvalidAmount(f"{what} is {value}, which is finer than a millionth; round it to 6 decimals")
    return int(scaled)


@dataclass(frozen=True, slots=True)
class Scarcity:
    """The amount that a blocked job needs, and the room for it now; neither if the budget or quota was deleted."""

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
        Reason(f"{found.kind}_unknown", f"{found.kind} {found.name!r} was deleted; the job fails at its next check")
    ]


def _budget(budget: Budget, asked: Mapping[str, int], now: int) -> list[Reason]:
    reasons: list[Reason] = []
    for line in budget.dimensions:
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
    return reasons or [Reason("budget", f"budget {budget.name!r} has room for it again; it is about to resume")]


def _way_out(budget: Budget, dimension: str, never_fits: bool, is_reserved: bool, now: int) -> str:
    whose = f" --tenant {budget.tenant}" if budget.tenant else ""
    ways = [f"a raise: holdfast budgets raise {budget.name} {dimension}=…{whose}"]
    if not never_fits:
        if is_reserved:
            ways.append("the end of runs that hold reservations")
        if budget.next_reset is not None:
            ways.append(f"its reset in {max(0, micros_of(budget.next_reset) - now) / SECOND:.0f} s")
        else:
            ways.append(f"a reset: holdfast budgets reset {budget.name}{whose}")
    return "it resumes after " + ", or ".join(ways)


def _quota(quota: Quota, opens_in: int) -> Reason:
    if opens_in:
        text = f"quota {quota.name!r} has admitted as many as its window allows; there is room in {said(opens_in)}"
        return Reason("quota", f"{text}, or after a raise: holdfast quotas set {quota.name}")
    if quota.concurrency is None or quota.active < quota.concurrency:
        return Reason("quota", f"quota {quota.name!r} has room for it again; it is about to resume")
    text = f"quota {quota.name!r} has {quota.active} of {quota.concurrency} active; it resumes when one of them ends"
    return Reason("quota_concurrency", text)
