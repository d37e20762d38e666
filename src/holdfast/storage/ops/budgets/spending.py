"""Spends and settlements of durable tasks: charged and recorded in the journal, both or neither."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from ....clock import SECOND
from ....errors import BudgetNotFound, IllegalMove
from ....model.budgets import Crossed
from ....model.steps import Step
from ....rules.budgets import give_back as less
from ...port import Tx
from ...statements import sql
from .. import steps
from ..jobs.queries import get_job
from . import budgets, reservations, shortages
from .accounts import chain, locked, write_lines
from .reservations import Runner, Wish, own_job, release

Charges = dict[str, Counter[str]]
"""Millionths by budget and dimension."""

_KINDS: Final = ("spend", "settle", "reserve")
_REMEMBERED: Final = 400 * 86_400 * SECOND
"""The record that a charge was refunded is kept for longer than the journal of its job."""


async def spend(tx: Tx, run: Runner, step: Step, budget: str, amounts: Mapping[str, int]) -> Sequence[Crossed]:
    """Charge a budget once, however often it is repeated; return the thresholds crossed."""
    tenant = await own_job(tx, run)
    if await steps.find(tx, run.job_id, step.key):
        return ()
    # First, because the budgets are locked from then on.
    await steps.record(tx, run.owner, run.job_id, run.epoch, step)
    return (await budgets.spend(tx, tenant, budget, amounts)).crossed


async def settle(tx: Tx, run: Runner, step: Step, wish: Wish) -> Sequence[Crossed]:
    """Settle a reservation once. Where an earlier run did, this one's is only released."""
    tenant = await own_job(tx, run)
    if await steps.find(tx, run.job_id, step.key):
        await release(tx, run, wish.hold)
        return ()
    await steps.record(tx, run.owner, run.job_id, run.epoch, step)
    return await reservations.settle(tx, run, tenant, wish)


async def spent_by(tx: Tx, job_id: str) -> Charges:
    """Return what a job has charged to budgets, by its journal. NotFound if there is no such job."""
    await get_job(tx, job_id)
    found: Charges = {}
    for step in await _charges(tx, job_id):
        found.setdefault(step.name, Counter()).update(_amounts(step))
    return found


async def give_back(tx: Tx, job_id: str) -> Charges:
    """Refund to its budgets what an ended job has charged, each charge once; return the refunds."""
    job = await get_job(tx, job_id)
    if not job.state.is_terminal:
        raise IllegalMove(f"job {job_id} is {job.state}; what it spent can be given back once it has ended")
    charges = [(step, keys) for step in await _charges(tx, job_id) if (keys := await _chain(tx, job.tenant, step.name))]
    accounts = await locked(tx, {key for _, keys in charges for key in keys})
    lines = {key: dict(account.lines) for key, account in accounts.items()}
    done: Charges = {}
    for step, keys in charges:
        if not await _is_first(tx, keys[0], f"given back:{job_id}:{step.key}:{step.epoch}", step):
            continue
        done.setdefault(step.name, Counter()).update(_amounts(step))
        for key in keys:
            for dimension, amount in _amounts(step).items():
                if (line := lines[key].get(dimension)) is not None:
                    lines[key][dimension] = less(line, amount)
    await write_lines(tx, [(key, line) for key in sorted(lines) for line in lines[key].values()] if done else [])
    await shortages.wake(tx, sorted(lines))
    return done


async def _charges(tx: Tx, job_id: str) -> list[Step]:
    return [step for step in (await steps.read_journal(tx, job_id)).steps if step.kind in _KINDS]


async def _chain(tx: Tx, tenant: str, budget: str) -> list[str]:
    """Return the chain of a budget; None where it was deleted since."""
    try:
        return await chain(tx, tenant, budget)
    except BudgetNotFound:
        return []


async def _is_first(tx: Tx, budget: str, mark: str, step: Step) -> bool:
    if await tx.one(sql.find_spend, budget=budget, idem_key=mark):
        return False
    await tx.one(sql.put_spend, budget=budget, idem_key=mark, amounts=step.value, answer="[]", kept=_REMEMBERED)
    return True


def _amounts(step: Step) -> dict[str, int]:
    amounts: dict[str, int] = json.loads(step.value or "{}")
    return amounts
