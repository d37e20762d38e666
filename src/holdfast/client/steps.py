"""The journals of durable jobs: read one, and fork a job from a step of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ..ids import ids
from ..model.steps import Step
from ..names import check_name
from ..rules.budgets import in_units
from ..storage.ops import steps
from ..storage.ops.audit import audit
from ..storage.ops.jobs import queries
from ..storage.port import Op, Tx
from ..tasks.tenants import creator

_CHARGES: Final = frozenset({"spend", "settle", "reserve"})


def journal(job_id: str, *, whole: bool) -> Op[list[Step]]:
    """Read the recorded steps of a durable job."""
    job_id = check_name("the id", job_id)

    async def run(tx: Tx) -> list[Step]:
        await queries.get_job(tx, job_id)
        if whole:
            return shown_steps(await steps.read_whole_journal(tx, job_id))
        return shown_steps((await steps.read_journal(tx, job_id)).steps)

    return Op(run)


def shown_steps(journal: Iterable[Step]) -> list[Step]:
    """Return the entries as they are shown, with amounts in their own unit."""
    return [
        replace(step, value=in_units(step.value)) if step.kind in _CHARGES and step.value else step for step in journal
    ]


def fork(job_id: str, from_step: str, actor: str, reason: str) -> Op[tuple[str, str]]:
    """Make a job with another's steps before a given one; return its task and its id."""
    new_id = ids.new()
    created_by = creator() if actor == "app" else actor

    async def run(tx: Tx) -> tuple[str, str]:
        await steps.fork(tx, job_id, from_step, new_id, created_by)
        after = {"from_step": from_step, "fork": new_id}
        await audit(tx, actor=actor, action="job.fork", target=job_id, reason=reason, after=after)
        return (await queries.get_job(tx, new_id)).task, new_id

    return Op(run)
