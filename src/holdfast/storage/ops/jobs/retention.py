"""Delete expired data, a page at a time: finished jobs with their history, results, closed windows, old records.

Pages are chosen on a snapshot and deleted under guards that repeat the choice, so concurrent pruning does no harm and
a job that was retried in between stays. Only the time of a job's end counts, never that of its creation.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Final

from ....clock import SECOND
from ....rules.retention import Retention, with_queues
from ...port import Row, Tx
from ...statements import sql
from ..artifacts import artifacts
from ..budgets.reservations import forget_runs
from ..queues import list_queues
from ..stats.rollup import rolled_to
from . import values
from .counting import ended, lower_tallies
from .queries import clock

BATCH: Final = 200
"""Rows that one transaction deletes at most."""
PAGE: Final = 2_000
"""Rows that are read in one step."""
_PAGES_AT_ONCE: Final = 128
_SPARE_PAGES: Final = 2_048
_SPARE_SHARE: Final = 0.25
_COUNTS_WITHIN: Final = 180 * SECOND
"""Minutes are rolled within this time of their beginning, if at all."""


async def retention(tx: Tx, base: Retention) -> Retention:
    """Return the retention times from the current settings of the queues."""
    return with_queues(base, await list_queues(tx))


async def page_of_ended(tx: Tx, after: int, kept: int, skip: int = 0) -> list[Row]:
    """Return jobs that ended after an instant and at least `kept` µs ago, oldest first: id, queue, state, end."""
    return await tx.all(sql.page_of_ended, after=after, kept=kept, skip=skip, n=PAGE)


async def prune_jobs(tx: Tx, ids: Sequence[str], kept: int) -> int:
    """Delete those of these jobs that ended at least `kept` µs ago and that nothing refers to; return how many."""
    rows = await tx.all(sql.lock_prunable, ids=json.dumps(ids), kept=kept)
    if rows:
        certain = json.dumps([row[0] for row in rows])
        await forget(tx, [row[0] for row in rows])
        await tx.one(sql.delete_jobs_of, ids=certain)
        await lower_tallies(tx, [(queue, state) for _, queue, state in rows])
    return len(rows)


async def prune_results(tx: Tx, ids: Sequence[str], kept: int) -> int:
    """Delete results and artifacts of those of these jobs that succeeded at least `kept` µs ago; return how many."""
    rows = await tx.all(sql.prune_results, ids=json.dumps(ids), kept=kept)
    await artifacts.remove(tx, [row[0] for row in rows])
    await values.drop(tx, [row[0] for row in rows], "result")
    return len(rows)


async def over_cap(tx: Tx, queue: str, cap: int) -> int:
    """Return by how many finished jobs a queue exceeds its cap."""
    # A rough check first: a large number is counted only where it may exceed the cap.
    if sum(count.jobs for count in await ended(tx) if count.queue == queue) <= cap:
        return 0
    row = await tx.one(sql.ended_in_queue, queue=queue)
    return max(0, row[0] - cap) if row else 0


async def page_of_evicted(tx: Tx, queue: str, state: str, after: int, n: int) -> list[Row]:
    """Return the oldest finished jobs of a queue in a state from an instant on: id, finished_at."""
    return await tx.all(sql.page_of_evicted, queue=queue, state=state, after=after, n=min(n, BATCH))


async def uncounted(tx: Tx) -> int:
    """Return how far back, in µs, jobs may have ended that no minute counts yet; 0 where nothing is counted."""
    behind = await clock(tx) - await rolled_to(tx)
    return behind if behind < _COUNTS_WITHIN else 0


async def wastes_space(tx: Tx) -> bool:
    """Return whether a SQLite file has so much free space that it should shrink, and can. The rest will be reused."""
    row = await tx.one(sql.free_pages)
    if row is None or not row[2]:
        return False
    free, pages, _ = row
    return bool(free > _SPARE_PAGES and free > pages * _SPARE_SHARE)


async def give_back_space(tx: Tx) -> None:
    """Shrink a SQLite file by one small step: the write lock is held for a few milliseconds."""
    for _ in range(_PAGES_AT_ONCE):
        await tx.one(sql.give_back_page)


async def what_is_over(tx: Tx, audit_kept: int) -> tuple[bool, bool]:
    """Return whether dedupe windows have closed, and whether audit records are old enough to delete."""
    row = await tx.one(sql.what_is_over, kept=audit_kept)
    assert row is not None
    return bool(row[0]), bool(row[1])


async def prune_windows(tx: Tx) -> int:
    """Delete dedupe windows that have closed."""
    return len(await tx.all(sql.expired_windows, n=BATCH))


async def flows_are_over(tx: Tx) -> bool:
    """Return whether there is an ended flow without members."""
    return await tx.one(sql.flows_are_over, n=BATCH) is not None


async def prune_flows(tx: Tx) -> int:
    """Delete ended flows without members."""
    return len(await tx.all(sql.prune_flows, n=BATCH))


async def prune_audit(tx: Tx, kept: int) -> int:
    """Delete old audit records."""
    return len(await tx.all(sql.prune_audit, kept=kept, n=BATCH))


async def forget(tx: Tx, ids: Collection[str]) -> None:
    """Delete the history, steps, mailboxes, edges and streams of jobs that are deleted in this transaction."""
    if not ids:
        return
    # Artifacts go with their job by a trigger: their bytes may be elsewhere, and must always be marked for removal.
    gone = json.dumps(list(ids))
    # The schema does this too, but not on a borrowed SQLite connection whose foreign keys are off.
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
