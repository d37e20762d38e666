"""The journals of durable jobs: read one, and fork a job from a step of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ..ids import ids
from ..model.steps import TRACE, Step, StepAttributes, StepInfo
from ..model.values import decoded, instant_of
from ..names import check_name
from ..rules.budgets import in_units
from ..storage.ops import steps
from ..storage.ops.audit import audit
from ..storage.ops.jobs import queries
from ..storage.port import Op, Tx
from ..tasks.tenants import creator

_CHARGES: Final = frozenset({"spend", "settle", "reserve"})
_read_attributes: Final = msgspec.json.Decoder(StepAttributes).decode


def journal(job_id: str, *, whole: bool) -> Op[list[StepInfo]]:
    """Read the recorded steps of a durable job."""
    job_id = check_name("the id", job_id)

    async def run(tx: Tx) -> list[StepInfo]:
        await queries.get_job(tx, job_id)
        if whole:
            return shown_steps(await steps.read_whole_journal(tx, job_id))
        return shown_steps((await steps.read_journal(tx, job_id)).steps)

    return Op(run)


def shown_steps(journal: Iterable[Step]) -> list[StepInfo]:
    """Return the entries as they are shown."""
    return [shown_step(step) for step in journal if step.kind != TRACE]


def shown_step(step: Step) -> StepInfo:
    """Return an entry as it is shown, with amounts in their own unit."""
    value = in_units(step.value) if step.kind in _CHARGES and step.value else step.value
    return StepInfo(
        key=step.key,
        kind=step.kind,
        name=step.name,
        called=step.called or None,
        attempts=step.attempts,
        started_at=instant_of(step.started_at),
        ended_at=instant_of(step.ended_at),
        value=decoded(value),
        error=decoded(step.error),
        attributes=None if step.attributes is None else _read_attributes(step.attributes),
    )


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
