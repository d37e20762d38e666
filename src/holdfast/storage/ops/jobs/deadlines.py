"""Deadlines of jobs that are not running."""

from __future__ import annotations

from typing import Final

from ...port import Tx
from ...statements import sql
from ..flows import dependency_resolution

PAGE: Final = 500


async def is_overdue(tx: Tx) -> bool:
    """Return whether a job that is not running has passed its deadline. Takes no lock."""
    return await tx.one(sql.overdue_job) is not None


async def expire_jobs(tx: Tx) -> list[str]:
    """End the jobs that have passed their deadline and are not running, a page at a time."""
    rows = await tx.all(sql.expire_jobs, n=PAGE)
    if rows:
        tx.ring("finished")
    if linked := [row[0] for row in rows if row[1]]:
        await dependency_resolution.resolve(tx, linked)
    return [row[0] for row in rows]


async def prune_dedupe_windows(tx: Tx) -> None:
    await tx.one(sql.prune_dedupe_windows)
