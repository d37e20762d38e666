"""Budgets as rows: found by name, read, locked in one order, and written."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

from ....errors import BudgetNotFound
from ....rules.budgets import Account, Line, after_reset
from ...port import Params, Row, Tx
from ...statements import Statement, sql
from ...unstorable import refuse_in_json


def key_of(tenant: str, name: str) -> str:
    """Join tenant and name into a key. No name contains the separator."""
    refuse_in_json(name)
    return f"{tenant}\x1f{name}"


def name_of(key: str) -> str:
    return key.partition("\x1f")[2]


async def chain(tx: Tx, tenant: str, name: str, *, shares: bool = True) -> list[str]:
    """Return the budget that a tenant means by a name, and all budgets that contain it.

    It is the tenant's own, or else with `shares` that of no tenant.
    """
    rows = await tx.all(sql.budget_chain, own=key_of(tenant, name), shared=key_of("" if shares else tenant, name))
    if not rows:
        raise BudgetNotFound(name)
    return [row[0] for row in rows]


async def locked(tx: Tx, keys: Collection[str]) -> dict[str, Account]:
    """Lock those of these budgets that exist, until the commit. Those due for a reset are reset."""
    found = await _accounts(tx, keys, sql.lock_budgets)
    for key, account in found.items():
        if account.is_due:
            found[key] = await write(tx, account, after_reset(account))
    return found


async def read(tx: Tx, keys: Collection[str]) -> dict[str, Account]:
    """Read budgets without a lock, as they are stored."""
    return await _accounts(tx, keys, sql.read_budgets)


async def write(tx: Tx, before: Account, after: Account) -> Account:
    """Store the differences. The budget is locked."""
    if replace(after, lines={}) != replace(before, lines={}):
        await tx.one(
            sql.write_budget,
            key=after.key,
            parent=after.parent,
            every=after.every,
            expression=after.expression,
            zone=after.zone,
            anchor=after.anchor,
            next_reset=after.next_reset,
            reset_at=after.reset_at,
            resets=after.resets,
            breached_at=after.breached_at,
            origin=after.origin,
        )
    lines = [(after.key, line) for name, line in after.lines.items() if line != before.lines.get(name)]
    await write_lines(tx, lines)
    return after


async def write_lines(tx: Tx, lines: Sequence[tuple[str, Line]]) -> None:
    """Store dimensions of locked budgets, each with its budget's key."""
    if lines:
        await tx.each(sql.write_line, [_columns(key, line) for key, line in lines])


def _columns(key: str, line: Line) -> Params:
    return {
        "budget": key, "dimension": line.dimension, "hard": line.hard, "soft": line.soft, "spent": line.spent,
        "lifetime": line.lifetime, "soft_breaches": line.soft_breaches, "hard_breaches": line.hard_breaches,
        "warned": int(line.warned),
    }  # fmt: skip


async def _accounts(tx: Tx, keys: Collection[str], statement: Statement) -> dict[str, Account]:
    wanted = json.dumps(sorted(keys))
    rows = await tx.all(statement, keys=wanted)
    if not rows:
        return {}
    lines: dict[str, dict[str, Line]] = {row[0]: {} for row in rows}
    # After the locks, so that earlier writes of other transactions are seen.
    for row in await tx.all(sql.lines_of, keys=wanted):
        if row[0] in lines:
            lines[row[0]][row[1]] = _line(row)
    return {row[0]: _account(row, lines[row[0]]) for row in rows}


def _account(row: Row, lines: dict[str, Line]) -> Account:
    key, tenant, name, parent, every, expression, zone, anchor, next_reset, reset_at, resets, breached_at, *rest = row
    origin, now = rest
    return Account(
        key=key, tenant=tenant, name=name, parent=parent, every=every, expression=expression, zone=zone, anchor=anchor,
        next_reset=next_reset, reset_at=reset_at, resets=resets, breached_at=breached_at, origin=origin, now=now,
        lines=lines,
    )  # fmt: skip


def _line(row: Row) -> Line:
    _, dimension, hard, soft, spent, lifetime, soft_breaches, hard_breaches, warned, reserved, stale = row
    return Line(
        dimension=dimension, hard=hard, soft=soft, spent=spent, lifetime=lifetime, soft_breaches=soft_breaches,
        hard_breaches=hard_breaches, warned=bool(warned), reserved=int(reserved), stale=stale,
    )  # fmt: skip
