"""Lets jobs go that are parked in a lane."""

from __future__ import annotations

from ..port import Tx
from ..statements import sql


async def unpark(tx: Tx, lane: str, n: int) -> int:
    """Make the first `n` jobs of a lane claimable again."""
    rows = await tx.all(sql.unpark_jobs, lane=lane, n=n)
    for queue in {row[0] for row in rows}:
        tx.ring(f"queue:{queue}")
    return len(rows)
