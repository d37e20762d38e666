"""What time does to rows: deadlines pass, dedupe windows close."""

from __future__ import annotations

from typing import Final

from ...port import Tx
from ...statements import sql
from ..flows import dependency_resolution

PAGE: Final = 500


async def is_overdue(tx: Tx) -> bool:
    """Whether a deadline has passed of a job that nobody runs: a look, before anything is locked for it."""
    return await tx.one(sql.overdue_job) is not None


async def expire_jobs(tx: Tx) -> list[str]:
    """End the jobs whose deadline has passed and that nobody runs, a page at a time."""
    rows = await tx.all(sql.expire_jobs, n=PAGE)
    if rows:
        tx.ring("finished")
    if linked := [row[0] for row in rows if row[1]]:
        await dependency_resolution.resolve(tx, linked)
    return [row[0] for row in rows]


async def prune_dedupe_windows(tx: Tx) -> None:
    await tx.one(sql.prune_dedupe_windows)
