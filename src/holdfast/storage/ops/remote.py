"""Operations for remote workers only: a worker's own row, the jobs it holds and their waits, and the store's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from ...errors import AccessDenied, InvalidInput, LeaseLost, SpendConflict
from ...ids import token
from ...model.budgets import Spent
from ...model.jobs import JobState
from ...model.outcomes import Finish, Lost, Recorded, Released, Suspended
from ...model.remote import OWN_PROCESS, Caller
from ...model.signals import Answer, Condition, Opened, Wait
from ...model.steps import Step
from ...model.workers import WorkerRecord, WorkerSpec
from ...rules.remote import Lease
from ...rules.steps import MOST_CALLS
from ..port import Tx
from ..statements import sql
from . import steps
from .audit import audit
from .budgets import spending
from .budgets.reservations import Runner, own_job
from .jobs import finishing
from .jobs.finishing import record
from .limits.lanes import release
from .limits.rates import standing
from .signals import suspension
from .signals.waitpoints import find_opened, get_waitpoint, open_waitpoint
from .workers import workers

_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Holding:
    """A job that a worker runs, with the facts on which its next claim depends."""

    id: str
    epoch: int
    generation: int
    attempt: int
    queue: str
    route: int
    alone: bool
    cancel_requested: bool


async def identity(tx: Tx) -> str:
    """Return the name of the store, created on first use. Copies of a database share it."""
    row = await tx.one(sql.store_id)
    if row is None:
        await tx.one(sql.insert_store_id, value=token())
        row = await tx.one(sql.store_id)
    assert row is not None
    return str(row[0])


async def check_holder(tx: Tx, worker_id: str, holder: str) -> None:
    """Raise AccessDenied where the worker belongs to another holder. Its holder never changes."""
    row = await tx.one(sql.holder_of_worker, id=worker_id)
    if row is not None and row[0] != holder:
        raise AccessDenied(
            f"worker {worker_id} was registered with another token, or is not one of the lease API",
            "use the token that registered it, or register a worker of your own",
        )


async def register(tx: Tx, spec: WorkerSpec, actor: str) -> None:
    """Register a worker of the lease API."""
    await workers.register(tx, spec)
    after = {"name": spec.name, "queues": spec.queues, "tasks": spec.tasks}
    await audit(tx, actor=actor, action="worker.register", target=spec.id, after=after)


async def get_worker(tx: Tx, worker_id: str, holder: str | None = None) -> WorkerRecord:
    """Return a worker that may work; LeaseLost where it was declared lost, has left, or never existed.

    With a `holder`: AccessDenied, where it belongs to another.
    """
    if holder is not None:
        await check_holder(tx, worker_id, holder)
    row = await tx.one(sql.get_worker, id=worker_id)
    if row is None or row[9] == "dead":
        raise gone(worker_id)
    return workers.worker_of(row)


async def lock_worker(tx: Tx, worker_id: str) -> WorkerRecord:
    """Lock and return such a worker: of two concurrent claims of one worker the second sees the jobs of the first."""
    await tx.one(sql.lock_worker, id=worker_id, certain=1)
    return await get_worker(tx, worker_id)


async def holdings(tx: Tx, worker_id: str) -> list[Holding]:
    rows = await tx.all(sql.held_jobs, owner=worker_id)
    return [
        Holding(id, epoch, generation, attempt, queue, route, bool(alone), cancel_at is not None)
        for id, epoch, generation, attempt, queue, route, alone, cancel_at in rows
    ]


async def beat(tx: Tx, worker_id: str, holder: str = "") -> list[Holding]:
    """Renew a worker's lease; return the jobs it holds."""
    await check_holder(tx, worker_id, holder)
    await workers.beat(tx, worker_id)
    return await holdings(tx, worker_id)


@dataclass(frozen=True, slots=True)
class Overdue:
    """A run that has taken too long: longer than its timeout, past the job's deadline, or after a cancel."""

    job_id: str
    owner: str
    epoch: int
    why: Literal["cancelled", "expired", "timeout"]


async def overdue(tx: Tx, grace: int) -> list[Overdue]:
    """Return a page of the runs of remote workers that should have ended at least `grace` µs ago."""
    rows = await tx.all(sql.overdue_leases, grace=grace, n=_PAGE)
    return [Overdue(*row) for row in rows]


async def is_own(tx: Tx, lease: Lease) -> bool:
    """Return whether that run owns the job, now and until the commit."""
    return await owns(tx, lease.worker, lease.job_id, lease.epoch)


async def owns(tx: Tx, worker: str, job_id: str, epoch: int) -> bool:
    """Return whether that worker owns the job under that epoch, now and until the commit."""
    return await tx.one(sql.lock_running, id=job_id, owner=worker, epoch=epoch) is not None


async def finish(tx: Tx, owner: str, finishes: Sequence[Finish]) -> list[Recorded | Lost]:
    """Record outcomes, as a worker's round trip does: a success also ends the cool-down of a throttled queue."""
    done = await record(tx, owner, finishes, (await standing(tx)).cooled)
    await release(tx, done.freed)
    return done.verdicts


async def hand_back(tx: Tx, worker_id: str, reason: str, caller: Caller = OWN_PROCESS) -> tuple[int, bool]:
    """Release a page of a leaving worker's jobs, and delete it after the last; return how many, and whether more."""
    await check_holder(tx, worker_id, caller.holder)
    if await tx.one(sql.lock_worker, id=worker_id, certain=1) is None:
        return 0, False
    await workers.stop(tx, worker_id)
    held = await workers.owned_jobs(tx, worker_id)
    page = [Finish(job.id, job.epoch, Released(reason)) for job in held[:_PAGE]]
    if page:
        await finish(tx, worker_id, page)
    if len(held) > len(page):
        return len(page), True
    await workers.deregister(tx, worker_id)
    await audit(tx, actor=caller.actor, action="worker.deregister", target=worker_id, reason=reason)
    return len(page), False


async def spend(tx: Tx, lease: Lease, key: str, step: Step, budget: str, amounts: Mapping[str, int]) -> Spent:
    """Charge a budget once for the key, in whichever run of the job; another amount under it is a conflict."""
    run = Runner(lease.worker, lease.job_id, lease.epoch)
    await own_job(tx, run)
    if before := await steps.find(tx, lease.job_id, step.key):
        if before.value != step.value:
            raise SpendConflict(budget, key)
        return Spent(changed=False, again=True, crossed=())
    crossed = await spending.spend(tx, run, await placed(tx, lease.job_id, step), budget, amounts)
    return Spent(changed=True, again=False, crossed=tuple(crossed))


async def record_step(tx: Tx, lease: Lease, step: Step) -> Step:
    """Write a journal entry, after all others; an existing one under its key stays, and is returned."""
    entry = await placed(tx, lease.job_id, step)
    return await steps.record(tx, lease.worker, lease.job_id, lease.epoch, entry)


async def placed(tx: Tx, job_id: str, step: Step) -> Step:
    """Return the entry at the end of its job's journal."""
    row = await tx.one(sql.last_position, job_id=job_id)
    assert row is not None
    if row[0] >= MOST_CALLS:
        raise InvalidInput(
            f"the journal of job {job_id} has {MOST_CALLS:,} entries; let it enqueue others for the rest"
        )
    return replace(step, position=row[0] + 1)


def gone(worker_id: str) -> LeaseLost:
    return LeaseLost(f"worker {worker_id} was declared lost or has left; its jobs belong to others: register again")


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
