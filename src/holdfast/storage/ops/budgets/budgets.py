"""Budgets: create, change, reset, charge. A change locks the budget's row, and the rows of the budgets that contain it,
in the order of their keys; a run's own row is locked before them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from ....clock import SECOND
from ....errors import BudgetNotFound, Conflict, InvalidInput, SpendConflict, UnknownDimension
from ....model.budgets import Budget, BudgetLine, Crossed, Spent
from ....model.values import instant_of
from ....rules.budgets import Account, Line, after_reset, charge, crossed, exact, next_reset, with_limits
from ...port import Tx
from ...statements import sql
from . import shortages
from .accounts import chain, key_of, locked, read, write, write_lines

KEPT: Final = 86_400 * SECOND
"""The time for which the key of a spend is kept."""
DEEPEST: Final = 16
PAGE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The settings of a budget. None leaves the current value; a limit of None is a dimension without a limit."""

    limits: Mapping[str, int | None]
    soft: Mapping[str, int | None]
    every: int | None = None
    expression: str | None = None
    zone: str | None = None
    never: bool = False
    """It is no longer reset by itself."""
    within: str | None = None
    """The name of the budget that contains it; "" for none."""


async def ensure(tx: Tx, tenant: str, name: str, terms: Terms, *, origin: str, shares: bool = True) -> bool:
    """Create or change a budget; False if nothing changes. Code does not change what an operator set."""
    key = key_of(tenant, name)
    created = await tx.one(sql.insert_budget, key=key, tenant=tenant, name=name, origin=origin) is not None
    account = (await locked(tx, [key]))[key]
    if origin == "code" and account.origin == "operator":
        return False
    parent = await _parent(tx, tenant, account, terms.within, shares=shares)
    wanted = _scheduled(replace(account, parent=parent, origin=origin, lines=_lines(account, name, terms)), terms)
    if wanted == account and not created:
        return False
    await write(tx, account, wanted)
    await shortages.wake(tx, [key])
    return True


async def raise_limits(tx: Tx, tenant: str, name: str, limits: Mapping[str, int]) -> tuple[Budget, bool]:
    """Set higher limits; return whether anything changed. Waiting jobs that now fit are unblocked."""
    account = await _one(tx, tenant, name)
    lines = dict(account.lines)
    for dimension, hard in limits.items():
        line = _known(account, dimension)
        if line.hard is None or hard < line.hard:
            now = "has no limit to raise" if line.hard is None else f"is {exact(line.hard):f}; enter a higher limit"
            raise InvalidInput(f"{dimension} of budget {name!r} {now}")
        lines[dimension] = with_limits(line, hard, line.soft)
    changed = lines != account.lines
    if changed:
        await write(tx, account, replace(account, lines=lines, origin="operator"))
        await shortages.wake(tx, [account.key])
    return await get(tx, tenant, name), changed


async def reset(tx: Tx, tenant: str, name: str) -> bool:
    """Reset a budget by hand; False if nothing was spent."""
    account = await _one(tx, tenant, name)
    if not any(line.spent or line.warned for line in account.lines.values()):
        return False
    await write(tx, account, replace(after_reset(account), next_reset=account.next_reset))
    await shortages.wake(tx, [account.key])
    return True


async def reset_due(tx: Tx, key: str) -> bool:
    """Reset a budget that is due; False if another transaction has done so."""
    before = (await read(tx, [key])).get(key)
    if before is None or not before.is_due:
        return False
    # Locking writes the due reset.
    await locked(tx, [key])
    await shortages.wake(tx, [key])
    return True


async def remove(tx: Tx, tenant: str, name: str) -> bool:
    """Delete a budget; False if there was none. Jobs that wait for it resume, and get BudgetNotFound."""
    key = key_of(tenant, name)
    await locked(tx, [key])
    if part := await tx.one(sql.budget_children, key=key):
        raise Conflict(f"budget {part[0]!r} is a part of {name!r}; delete that first, or set its `within`")
    if await tx.one(sql.delete_budget, key=key) is None:
        return False
    await tx.one(sql.delete_budget_lines, key=key)
    await tx.one(sql.delete_budget_spends, key=key)
    await shortages.wake(tx, [key])
    return True


async def spend(
    tx: Tx, tenant: str, name: str, amounts: Mapping[str, int], *, key: str | None = None, shares: bool = True
) -> Spent:
    """Count a spend in a budget and in all budgets that contain it, whatever their limits.

    With a `key`, repeating the same spend within a day changes nothing and returns the same.
    """
    keys = await chain(tx, tenant, name, shares=shares)
    accounts = await locked(tx, keys)
    text = json.dumps(amounts, sort_keys=True)
    if key is not None and (found := await tx.one(sql.find_spend, budget=keys[0], idem_key=key)):
        if found[0] != text:
            raise SpendConflict(name, key)
        crossed = msgspec.json.decode(found[1], type=tuple[Crossed, ...])
        return Spent(changed=False, again=True, crossed=crossed)
    crossings = tuple(await charge_all(tx, accounts, keys, amounts))
    if key is not None:
        answer = msgspec.json.encode(crossings).decode()
        await tx.one(sql.put_spend, budget=keys[0], idem_key=key, amounts=text, answer=answer, kept=KEPT)
    return Spent(changed=True, again=False, crossed=crossings)


async def charge_all(
    tx: Tx, accounts: Mapping[str, Account], keys: Sequence[str], amounts: Mapping[str, int]
) -> list[Crossed]:
    """Add amounts to a chain of locked budgets, where they have that dimension; return the thresholds crossed."""
    known_dimensions(accounts[keys[0]], amounts)
    crossings: list[Crossed] = []
    charged: list[tuple[str, Line]] = []
    for key in keys:
        account, earlier = accounts[key], len(crossings)
        for dimension, amount in amounts.items():
            before = account.lines.get(dimension)
            if before is not None and amount:
                after = charge(before, amount)
                charged.append((key, after))
                crossings += crossed(account.name, before, after)
        if any(one.kind == "hard" for one in crossings[earlier:]):
            await write(tx, account, replace(account, breached_at=account.now))
    await write_lines(tx, charged)
    return crossings


async def get(tx: Tx, tenant: str, name: str) -> Budget:
    key = key_of(tenant, name)
    found = await _views(tx, [key])
    if not found:
        raise BudgetNotFound(name)
    return found[0]


async def list_budgets(tx: Tx, tenant: str | None, *, after: str = "", limit: int = PAGE) -> list[Budget]:
    """List budgets in the order of tenants and names."""
    rows = await tx.all(sql.list_budgets, tenant=tenant, after=after, n=limit)
    return await _views(tx, [row[0] for row in rows])


async def due_resets(tx: Tx) -> list[str]:
    return [row[0] for row in await tx.all(sql.due_resets, n=PAGE)]


async def prune_spends(tx: Tx, n: int) -> int:
    """Delete keys of spends that are a day old."""
    return len(await tx.all(sql.expired_spends, n=n))


async def _views(tx: Tx, keys: Sequence[str]) -> list[Budget]:
    views: list[Budget] = []
    for key, account in (await read(tx, keys)).items():
        waiting = await tx.one(sql.count_short_of, key=key)
        views.append(_view(account.current, waiting[0] if waiting else 0))
    return views


async def _one(tx: Tx, tenant: str, name: str) -> Account:
    key = key_of(tenant, name)
    account = (await locked(tx, [key])).get(key)
    if account is None:
        raise BudgetNotFound(name)
    return account


async def _parent(tx: Tx, tenant: str, account: Account, within: str | None, *, shares: bool) -> str | None:
    if not within:
        return account.parent if within is None else None
    above = await chain(tx, tenant, within, shares=shares)
    if account.key in above:
        raise InvalidInput(f"budget {within!r} is a part of this one already; a budget cannot be a part of itself")
    if len(above) >= DEEPEST:
        raise InvalidInput(f"budgets can be parts of each other {DEEPEST} deep, and {within!r} is at the bottom")
    return above[0]


def _lines(account: Account, name: str, terms: Terms) -> dict[str, Line]:
    lines = dict(account.lines)
    for dimension in sorted({*terms.limits, *terms.soft}):
        line = lines.get(dimension) or Line(dimension=dimension, hard=None, soft=None)
        hard = terms.limits.get(dimension, line.hard)
        soft = terms.soft.get(dimension, line.soft)
        lines[dimension] = with_limits(line, hard, soft)
    if not lines:
        raise InvalidInput(f"budget {name!r} needs a dimension, such as tokens=1_000_000")
    return lines


def _scheduled(account: Account, terms: Terms) -> Account:
    if terms.never:
        return replace(account, every=None, expression=None, next_reset=None)
    if terms.every is None and terms.expression is None:
        return account
    zone = terms.zone or "UTC"
    if (account.every, account.expression, account.zone) == (terms.every, terms.expression, zone):
        return account
    due = next_reset(terms.every, terms.expression, zone, account.now, account.now)
    return replace(
        account, every=terms.every, expression=terms.expression, zone=zone, anchor=account.now, next_reset=due
    )


def _known(account: Account, dimension: str) -> Line:
    line = account.lines.get(dimension)
    if line is None:
        raise UnknownDimension(account.name, dimension, tuple(account.lines))
    return line


def known_dimensions(account: Account, dimensions: Iterable[str]) -> None:
    """Raise UnknownDimension unless the budget has all of these."""
    for dimension in dimensions:
        _known(account, dimension)


def _view(account: Account, blocked: int) -> Budget:
    return Budget(
        tenant=account.tenant,
        name=account.name,
        within=account.parent.partition("\x1f")[2] if account.parent else None,
        every=None if account.every is None else account.every / SECOND,
        cron=account.expression,
        zone=account.zone,
        next_reset=instant_of(account.next_reset),
        reset_at=instant_of(account.reset_at),
        resets=account.resets,
        breached_at=instant_of(account.breached_at),
        origin=account.origin,
        dimensions=tuple(_line(line) for line in account.lines.values()),
        blocked=blocked,
    )


def _line(line: Line) -> BudgetLine:
    return BudgetLine(
        dimension=line.dimension,
        limit=None if line.hard is None else exact(line.hard),
        soft=None if line.soft is None else exact(line.soft),
        spent=exact(line.spent),
        reserved=exact(line.reserved),
        left=None if line.hard is None else exact(line.hard - line.spent - line.reserved),
        lifetime=exact(line.lifetime),
        soft_breaches=line.soft_breaches,
        hard_breaches=line.hard_breaches,
    )
