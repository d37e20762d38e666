"""Expired leases, and workers that an operator declares dead."""

from __future__ import annotations

from ....errors import NotFound
from ....model.actions import Lease
from ....model.workers import Rescue
from ...port import Tx
from ...statements import sql
from ..audit import audit, was_audited
from . import workers

DEAD = "worker.dead"


async def expired_leases(tx: Tx, *, tenant: str | None = None, after: str = "", limit: int = 100) -> list[Lease]:
    """Return jobs whose worker is dead or has missed its lease, by id, after the last id of the last page."""
    return [Lease(*row) for row in await tx.all(sql.expired_leases, tenant=tenant, after=after, n=limit)]


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
    tx.notify("cancel")
    return page
