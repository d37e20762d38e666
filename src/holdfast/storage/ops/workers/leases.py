"""Operator actions on leases: list expired ones, revoke one, declare a worker dead."""

from __future__ import annotations

from ....errors import NotFound
from ....model.actions import AlreadySatisfied, Held, Lease, Revoked
from ....model.jobs import JobState
from ....model.outcomes import Finish, Released
from ....model.workers import Rescue
from ...port import Tx
from ...statements import sql
from ..audit import audit, was_audited
from ..jobs.finishing import settle
from ..jobs.queries import get_job
from . import workers

DEAD = "worker.dead"


async def expired_leases(tx: Tx, *, tenant: str | None = None, after: str = "", limit: int = 100) -> list[Lease]:
    """Return jobs whose worker is dead or has missed its lease, by id, after the last id of the last page."""
    return [Lease(*row) for row in await tx.all(sql.expired_leases, tenant=tenant, after=after, n=limit)]


async def revoke(tx: Tx, job_id: str, held: Held, *, actor: str, reason: str) -> Revoked | AlreadySatisfied:
    """Take a running job from its worker: it is ready again under a new epoch, without using an attempt."""
    # Locked first: its owner may be about to record how it ended.
    await tx.one(sql.lock_job, id=job_id)
    job = await get_job(tx, job_id)
    if job.state is not JobState.RUNNING or job.owner is None:
        return AlreadySatisfied("no_active_lease")
    if why := held.misfit(job.owner, job.epoch):
        return AlreadySatisfied(why)
    (row,) = await settle(tx, job.owner, [Finish(job_id, job.epoch, Released("revoked"))], by_owner=False)
    assert row is not None
    # Its worker checks at once which jobs it still owns.
    tx.ring("cancel")
    tx.ring("finished")
    before = {"owner": job.owner, "epoch": job.epoch}
    await audit(
        tx, actor=actor, action="job.revoke", target=job_id, reason=reason, before=before, after={"state": row[0]}
    )
    return Revoked(row[0], job.epoch + 1)


async def mark_dead(tx: Tx, worker_id: str, *, actor: str, reason: str) -> Rescue | None:
    """Declare a worker dead and take the first page of its jobs; None if it was declared dead before."""
    row = await tx.one(sql.lock_worker, id=worker_id, certain=1)
    if row is None:
        if await was_audited(tx, DEAD, worker_id):
            return None
        raise NotFound("worker", worker_id)
    again = row[0] == "dead" and await was_audited(tx, DEAD, worker_id)
    page = await workers.rescue(tx, worker_id, certain=True)
    if not again:
        after = {"rescued": len(page.rescued), "more": page.more}
        await audit(
            tx, actor=actor, action=DEAD, target=worker_id, reason=reason, before={"state": row[0]}, after=after
        )
    tx.ring("cancel")
    return page
