"""Waits of jobs on remote workers: answered at once, or suspended, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....errors import InvalidInput, LeaseLost
from ....model.jobs import JobState
from ....model.outcomes import Finish, Recorded, Suspended
from ....model.signals import Answer, Condition, Opened, Wait
from ....rules.remote import Lease
from ...port import Tx
from .. import steps
from ..jobs import finishing
from ..signals import suspension
from ..signals.waitpoints import find_opened, get_waitpoint, open_waitpoint
from .remote import is_own


@dataclass(frozen=True, slots=True)
class Opening:
    """A waitpoint to open. `expires` is in microseconds from now."""

    key: str
    name: str
    expires: int
    schema: str | None
    once: bool = True


@dataclass(frozen=True, slots=True)
class Rest:
    """The answer, or the record of the suspension, with the waitpoint that the job waits for."""

    answer: Answer | None = None
    opened: Opened | None = None
    verdict: Recorded | None = None


async def open_for(tx: Tx, lease: Lease, opening: Opening) -> Opened:
    """Open a waitpoint for a run, or return the one that it has under that key."""
    return await open_waitpoint(
        tx, lease.worker, lease.job_id, lease.epoch, opening.key, opening.name, opening.expires, schema=opening.schema,
        once=opening.once,
    )  # fmt: skip


async def suspend(tx: Tx, lease: Lease, wait: Wait, opening: Opening | None) -> Rest:
    """Suspend a run's job, unless the answer is there. LeaseLost where the run no longer owns the job."""
    if not await is_own(tx, lease):
        return await _rest_again(tx, lease, wait, opening)
    if (known := await steps.find(tx, lease.job_id, wait.key)) is not None:
        return Rest(Answer.decode(known.value or ""))
    opened = None if opening is None else await open_for(tx, lease, opening)
    await _require_own(tx, lease, wait)
    if opened is not None:
        wait = replace(wait, condition=Condition(waitpoints=(opened.id,)))
    answer = await suspension.take(tx, lease.worker, lease.job_id, lease.epoch, wait)
    if answer is not None:
        return Rest(answer)
    return Rest(None, opened, await _put_to_rest(tx, lease, wait))


async def _rest_again(tx: Tx, lease: Lease, wait: Wait, opening: Opening | None) -> Rest:
    """Answer a call that was repeated because its reply was lost, with the same token."""
    verdict = await _put_to_rest(tx, lease, wait)
    if opening is None or verdict.state != JobState.SUSPENDED:
        return Rest(verdict=verdict)
    return Rest(None, await find_opened(tx, lease.job_id, opening.key, lease.generation), verdict)


async def _require_own(tx: Tx, lease: Lease, wait: Wait) -> None:
    """Refuse waitpoints of other jobs: a signal at one, such as that of a fork's original, goes to that job."""
    for id in wait.condition.waitpoints:
        found = await get_waitpoint(tx, id)
        if found is None or found.job_id != lease.job_id:
            raise InvalidInput(f"job {lease.job_id} has no waitpoint {id}; open one in the job that waits")


async def _put_to_rest(tx: Tx, lease: Lease, wait: Wait) -> Recorded:
    finish = Finish(lease.job_id, lease.epoch, Suspended(wait))
    (verdict,) = await finishing.finish(tx, lease.worker, [finish])
    if not isinstance(verdict, Recorded):
        raise LeaseLost(f"job {lease.job_id} is no longer this worker's; nothing was changed")
    return verdict
