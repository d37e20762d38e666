"""Arithmetic of budgets: room, reservations and charges. Amounts are millionths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..model.budget import Crossed, Exhausted
from ..model.schedule import Timing
from .amounts import CEILING, exact
from .ticks import next_tick


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
    """By runs that go on."""
    stale: int = 0
    """Reservations of runs that do not."""

    @property
    def room(self) -> int:
        """The amount that can be reserved. Without a limit, as much as can be added up."""
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
        """The account as it is from now on: begun anew if that is due, even if that was not written yet."""
        return begun_anew(self) if self.is_due else self


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first dimension of a budget that has too little room, and the amounts."""

    key: str
    dimension: str
    asked: int


def refusal(accounts: Mapping[str, Account], asked: Mapping[tuple[str, str], int]) -> Refusal | None:
    """The first that refuses, in one order for everybody; None if all of it fits."""
    for (key, dimension), amount in sorted(asked.items()):
        if amount > accounts[key].lines[dimension].room:
            return Refusal(key, dimension, amount)
    return None


def set_aside(accounts: Mapping[str, Account], asked: Mapping[tuple[str, str], int]) -> dict[str, Account]:
    """The same budgets with this reserved in them."""
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
    """Take back a spend. The count for the budget's lifetime stays."""
    return replace(line, spent=max(0, line.spent - amount))


def charge(line: Line, amount: int) -> Line:
    """A spend always counts. Each limit that it crosses is noted once."""
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


def begun_anew(account: Account) -> Account:
    """Nothing is spent any more. What was spent and breached over its lifetime stays known."""
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
    """A soft limit that lies above what was spent can be crossed again."""
    return replace(line, hard=hard, soft=soft, warned=line.warned and soft is not None and line.spent > soft)


def fitting(waiting: Iterable[tuple[str, Mapping[str, int]]], lines: Mapping[str, Line]) -> Sequence[str]:
    """Return those whose asks fit together into what is left, in order."""
    room = {name: line.room for name, line in lines.items()}
    chosen: list[str] = []
    for job_id, asked in waiting:
        # A dimension that is gone refuses nothing here: the run will be told.
        if all(amount <= room.get(name, amount) for name, amount in asked.items()):
            chosen.append(job_id)
            for name, amount in asked.items():
                if name in room:
                    room[name] -= amount
    return chosen
