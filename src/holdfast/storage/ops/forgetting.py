"""Remove what is stored beside a job and is of no use without it."""

from __future__ import annotations

import json
from collections.abc import Collection

from ..port import Tx
from ..statements import sql
from .reserving import forget_runs


async def forget(tx: Tx, ids: Collection[str]) -> None:
    """The history, steps, mailboxes, edges and streams of jobs that are deleted in this transaction."""
    if not ids:
        return
    # Artifacts go with their job by a trigger: their bytes may be elsewhere, and nobody may forget to doom them.
    gone = json.dumps(list(ids))
    # The schema does this too, but not on a lent SQLite connection whose foreign keys are off.
    await tx.one(sql.delete_attempts_of, ids=gone)
    await tx.one(sql.forget_steps, ids=gone)
    await tx.one(sql.forget_waits, ids=gone)
    await tx.one(sql.forget_waitpoints, ids=gone)
    await tx.one(sql.forget_signals, ids=gone)
    await tx.one(sql.forget_edges, ids=gone)
    await tx.one(sql.forget_joins, ids=gone)
    await tx.one(sql.forget_grants, ids=gone)
    await tx.one(sql.forget_order, ids=gone)
    await tx.one(sql.forget_deliveries, ids=gone)
    await tx.one(sql.leave_callbacks, ids=gone)
    await tx.one(sql.forget_hooks, ids=gone)
    await tx.one(sql.forget_frames, ids=gone)
    await tx.one(sql.drop_shortages, ids=gone)
    await forget_runs(tx, ids)
    await tx.one(sql.forget_streams, ids=gone)
    await tx.one(sql.forget_summaries, ids=gone)
