"""Workers, their leases, their health and their roles. One row per worker is renewed; the jobs it owns only name it.

A role is for work that one worker is enough for. It saves work and nothing else: whatever its leader does must be safe
when two do it at once.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

from ....clock import SECOND
from ....errors import LeaseLost
from ....model.outcomes import Finish
from ....model.stats import Vitals
from ....model.values import instant_of, seconds_of
from ....model.workers import MOST_OLDEST, Owned, Rescue, WorkerInfo, WorkerRecord, WorkerSpec
from ....rules.lifecycle import after_loss
from ....rules.retry import decode, is_aged_out
from ...port import Row, Tx
from ...statements import sql
from ..jobs.finishing import settle

RESCUE_PAGE: Final = 500
# A rescue of many jobs spreads them over this time, so that they do not all come due at once.
_SPREAD: Final = 1_000_000


async def register(tx: Tx, spec: WorkerSpec) -> None:
    """Register a worker, with its lease running from now."""
    await tx.one(
        sql.insert_worker,
        id=spec.id,
        name=spec.name,
        host=spec.host,
        pid=spec.pid,
        process_key=spec.process_key,
        queues=json.dumps(spec.queues),
        tasks=json.dumps(spec.tasks),
        concurrency=spec.concurrency,
        version=spec.version,
        lease=spec.lease,
        capabilities=json.dumps(spec.capabilities),
        resident=json.dumps(spec.resident),
        versions=json.dumps(dict(spec.versions)),
        holder=spec.holder,
    )


async def beat(tx: Tx, worker_id: str, vitals: Vitals | None = None) -> list[Owned]:
    """Renew the lease; return the jobs that this worker owns. LeaseLost if it was declared dead."""
    if await tx.one(sql.renew_worker, id=worker_id) is None:
        raise LeaseLost(f"worker {worker_id} was declared lost; its jobs belong to others now")
    if vitals is not None:
        await set_pulse(tx, worker_id, vitals)
    return await owned_jobs(tx, worker_id)


async def owned_jobs(tx: Tx, worker_id: str) -> list[Owned]:
    """Return the jobs that this worker owns."""
    rows = await tx.all(sql.owned_jobs, owner=worker_id)
    return [Owned(id, epoch, claim, cancel_at is not None) for id, epoch, claim, cancel_at in rows]


async def stop_reason(tx: Tx, job_id: str, epoch: int) -> str | None:
    """Return why the run of that epoch must end, `cancel` or `lost`; None if it may continue."""
    row = await tx.one(sql.is_cancelled, id=job_id, epoch=epoch)
    return "lost" if row is None else "cancel" if row[0] else None


async def stop(tx: Tx, worker_id: str) -> None:
    """Mark the worker as stopping: it claims no more."""
    await tx.one(sql.stop_worker, id=worker_id)


async def deregister(tx: Tx, worker_id: str) -> bool:
    """Delete a worker that owns nothing; False while it still owns jobs."""
    # Locked exclusively first: a claim in flight must be seen, or its jobs would have no owner.
    await tx.one(sql.lock_worker, id=worker_id, certain=1)
    return await tx.one(sql.delete_worker, id=worker_id) is not None


async def list_workers(tx: Tx) -> list[WorkerRecord]:
    rows = await tx.all(sql.list_workers)
    return [worker_of(row) for row in rows]


async def list_with_jobs(tx: Tx) -> list[WorkerInfo]:
    """List the workers, each with how many jobs it runs and the oldest of them."""
    counts: dict[str, int] = {}
    oldest: dict[str, tuple[str, ...]] = {}
    for owner, jobs, id in await tx.all(sql.running_of_workers, few=MOST_OLDEST):
        counts[owner], oldest[owner] = jobs, (*oldest.get(owner, ()), id)
    return [_info(one, counts.get(one.id, 0), oldest.get(one.id, ())) for one in await list_workers(tx)]


def _info(worker: WorkerRecord, running: int, oldest: tuple[str, ...]) -> WorkerInfo:
    return WorkerInfo(
        id=worker.id,
        name=worker.name,
        host=worker.host,
        pid=worker.pid,
        state=worker.shown_state,
        queues=worker.queues,
        tasks=worker.tasks,
        concurrency=worker.concurrency,
        capabilities=worker.capabilities,
        resident=worker.resident,
        versions=dict(worker.versions),
        version=worker.version,
        started_at=instant_of(worker.started_at),
        beat_at=instant_of(worker.beat_at),
        lease=seconds_of(worker.lease),
        lease_until=instant_of(worker.lease_until),
        running=running,
        oldest=oldest,
    )


async def rescue(tx: Tx, worker_id: str, *, certain: bool = False, spread: float = 0.0, waits: bool = True) -> Rescue:
    """Take one page of jobs from a lost worker, and delete it once it owns nothing.

    Changes nothing unless its lease has expired, or the caller is `certain` that its process is gone; nor, unless the
    caller `waits`, while one of its claims is in progress. `spread` in [0, 1) is the caller's randomness.
    """
    lock = sql.lock_worker if waits else sql.try_lock_worker
    if await tx.one(lock, id=worker_id, certain=int(certain)) is None:
        return Rescue((), more=False)
    await tx.one(sql.mark_dead, id=worker_id)
    rows = await tx.all(sql.page_of_lost, owner=worker_id, n=RESCUE_PAGE)
    width = 0 if len(rows) < 10 else _SPREAD
    finishes = []
    for i, (id, epoch, attempts, max_attempts, crashes, losses, alone, time_left, *aged) in enumerate(rows):
        delay = int((i + spread) / len(rows) * width)
        outcome = after_loss(
            attempts=attempts,
            max_attempts=max_attempts,
            crashes=crashes,
            losses=losses,
            alone=bool(alone),
            time_left=time_left,
            error=_lost_error(worker_id),
            delay=delay,
            is_too_old=_is_too_old(delay, *aged),
        )
        finishes.append(Finish(id, epoch, outcome))
    changed = await settle(tx, worker_id, finishes, by_owner=False)
    if finishes:
        tx.notify("finished")
    else:
        await tx.one(sql.delete_worker, id=worker_id)
    return Rescue(tuple(f.id for f, row in zip(finishes, changed, strict=True) if row), more=any(changed))


def _is_too_old(delay: int, policy: str | None, created_at: int, now: int) -> bool:
    """Return whether the age limit of a job's policy, or else its queue's, comes before its next retry."""
    return policy is not None and is_aged_out(decode(policy), created_at, now, delay / SECOND)


def worker_of(row: Row) -> WorkerRecord:
    """Return a worker from its row."""
    fields = list(row)
    fields[5:7] = tuple(json.loads(row[5])), tuple(json.loads(row[6]))
    fields[14:16] = bool(row[14]), tuple(json.loads(row[15]))
    fields[16:18] = tuple(json.loads(row[16])), json.loads(row[17])
    return WorkerRecord(*fields)


def _lost_error(worker_id: str) -> str:
    message = f"worker {worker_id} was lost while it ran this job"
    return json.dumps({"type": "WorkerLost", "message": message})


async def set_pulse(tx: Tx, worker_id: str, vitals: Vitals) -> None:
    """Store the health of a worker's process."""
    await tx.one(
        sql.set_pulse,
        worker=worker_id,
        cpu=vitals.cpu,
        rss=vitals.rss,
        claims=vitals.claims,
        claim_p50=_micros(vitals.claim_p50),
        claim_p99=_micros(vitals.claim_p99),
        waiting=vitals.waiting,
    )


async def vitals_of_workers(tx: Tx) -> dict[str, Vitals]:
    """Return each worker's last report, by its id."""
    return {
        worker: Vitals(
            cpu=cpu,
            rss=rss,
            claims=claims,
            claim_p50=_seconds(p50),
            claim_p99=_seconds(p99),
            waiting=waiting,
            at=at,
        )
        for worker, at, cpu, rss, claims, p50, p99, waiting in await tx.all(sql.list_pulses)
    }


async def forget_pulses(tx: Tx) -> None:
    """Delete the reports of workers that are gone."""
    await tx.one(sql.delete_pulses)


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * SECOND)


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / SECOND


RESIGNED: Final = "leader"


async def open_roles(tx: Tx, roles: Collection[str], holder: str, lease: int) -> tuple[set[str], int]:
    """Return the roles that `holder` has or could take now, and in how many microseconds the next could be free.

    A read, to avoid a write that only finds that another worker leads.
    """
    found = await tx.all(sql.leaders)
    taken = {role: left for role, other, left in found if role in roles and other != holder and 0 < left <= 2 * lease}
    return set(roles) - taken.keys(), min(taken.values(), default=0)


async def leaders(tx: Tx) -> dict[str, str]:
    """Return the leader of each role."""
    return {role: holder for role, holder, left in await tx.all(sql.leaders) if left > 0}


async def lead(tx: Tx, roles: Collection[str], holder: str, lease: int) -> set[str]:
    """Take free roles and renew one's own; return the roles that `holder` has for `lease` microseconds from now."""
    # In one order by every worker, so that two that lead several roles never wait for each other.
    return {role for role in sorted(roles) if await tx.one(sql.take_lead, role=role, holder=holder, lease=lease)}


async def resign(tx: Tx, holder: str) -> set[str]:
    """Give up every role at once, rather than when the lease ends."""
    left = {role for (role,) in await tx.all(sql.resign_lead, holder=holder)}
    if left:
        tx.notify(RESIGNED)
    return left
