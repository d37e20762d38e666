"""Parks jobs that need the same limit as a refused one, and unparks the jobs of a lane."""

from __future__ import annotations

from typing import Final

from ....model.jobs import Claimed
from ...port import Tx
from ...statements import sql

_AT_ONCE: Final = 1_000


async def park_alike(tx: Tx, job: Claimed, lane: str | None) -> list[str]:
    """Park the jobs behind a refused one that need the same; without a lane they are blocked."""
    rows = await tx.all(sql.park_alike, lane=lane, route=job.route, limits=job.limits, tenant=job.tenant, n=_AT_ONCE)
    return [row[0] for row in rows]


async def unpark(tx: Tx, lane: str, n: int) -> int:
    """Make the first `n` jobs of a lane claimable again."""
    rows = await tx.all(sql.unpark_jobs, lane=lane, n=n)
    for queue in {row[0] for row in rows}:
        tx.notify(f"queue:{queue}")
    return len(rows)
