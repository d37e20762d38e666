"""Spends and settlements of durable tasks: charged and recorded in the journal, both or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model.budget import Crossed
from ...model.step import Step
from ..port import Tx
from . import budgets, reserving, steps
from .reserving import Runner, Wish, own_job, release


async def spend(tx: Tx, run: Runner, step: Step, budget: str, amounts: Mapping[str, int]) -> Sequence[Crossed]:
    """Charge a budget once, whatever is repeated; what it crossed."""
    tenant = await own_job(tx, run)
    if await steps.find(tx, run.job_id, step.key):
        return ()
    # First, because the budgets are locked from then on.
    await steps.record(tx, run.owner, run.job_id, run.epoch, step)
    return (await budgets.spend(tx, tenant, budget, amounts)).crossed


async def settle(tx: Tx, run: Runner, step: Step, wish: Wish) -> Sequence[Crossed]:
    """Settle a reservation once. Where an earlier run did, this one's is only given back."""
    tenant = await own_job(tx, run)
    if await steps.find(tx, run.job_id, step.key):
        await release(tx, run, wish.hold)
        return ()
    await steps.record(tx, run.owner, run.job_id, run.epoch, step)
    return await reserving.settle(tx, run, tenant, wish)
