"""The event log. Each transaction adds one row with all its events; readers follow the rows by number.

The schema records most transitions by itself, whichever operation makes them. Starts, successes and bulk enqueues
come by the hundred: they are recorded here, many in one row, in the transaction that makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ...model.events import Chunk, Page
from ...model.jobs import Claimed
from ...model.outcomes import Finish
from ...rules.webhooks import asks_for_all, asks_for_ends
from ..port import Row, Tx
from ..statements import sql

TOPIC: Final = "events"
MOVED_AT_ONCE: Final = 500
"""Rows that one transaction moves from the inbox to the log."""
_PRUNED_AT_ONCE: Final = 1_000
_encode: Final = msgspec.json.Encoder().encode
_ASKED: Final = ""
"""Stands for a queue that records all events: for jobs that request them."""
_Facts = tuple[Any, ...]
"""The recorded facts of one job, in the order in which model.event reads them."""


async def succeeded(tx: Tx, owner: str, finishes: Sequence[Finish], rows: Sequence[Row | None]) -> None:
    """Record the successes among these; each row is what was stored of its job."""
    by_queue: dict[str, list[_Facts]] = {}
    for finish, row in zip(finishes, rows, strict=True):
        if row is not None:
            _, queue, task, tenant, attempts, tags, flow, *_ = row
            by_queue.setdefault(_ASKED if tags and asks_for_ends(tags) else queue, []).append(
                (finish.id, task, queue, tenant, "running", "succeeded", attempts, finish.epoch, owner, tags, flow)
            )
    await _put(tx, by_queue, "outcomes")


async def started(tx: Tx, owner: str, jobs: Sequence[Claimed]) -> None:
    """Record jobs that start to run."""
    by_queue: dict[str, list[_Facts]] = {}
    for job in jobs:
        by_queue.setdefault(_ASKED if job.tags and asks_for_all(job.tags) else job.queue, []).append(
            (job.id, job.task, job.queue, job.tenant, "ready", "running", job.attempt, job.epoch, owner, job.tags,
             job.flow)
        )  # fmt: skip
    await _put(tx, by_queue, "all")


async def copied(tx: Tx, ids: Sequence[str]) -> None:
    """Record jobs that were stored by `copy`."""
    await tx.one(sql.tell_copied, ids=_encode(ids).decode())
    tx.notify(TOPIC)


async def asked(tx: Tx, ids: Sequence[str]) -> None:
    """Record new jobs that request events, unless their queues record all events."""
    if ids:
        await tx.one(sql.tell_asked, ids=_encode(ids).decode())
        tx.notify(TOPIC)


async def stages(tx: Tx, job_id: str, run: str, stages: Sequence[str]) -> None:
    """Record the stages that a run has reported, without repetitions in a row."""
    row = await tx.one(sql.stage_of, job_id=job_id, run=run)
    before = row[0] if row else None
    for stage in stages:
        if stage != before:
            await tx.one(sql.tell_stage, job_id=job_id, stage=stage, before=before)
            before = stage
    tx.notify(TOPIC)


async def log_or_ignore_new_jobs(tx: Tx) -> None:
    """Set whether new jobs are recorded at all, after a queue's setting changed."""
    verbose = await tx.one(sql.any_loud_queue)
    await tx.one(sql.hear_new_jobs if verbose else sql.ignore_new_jobs)


async def read(tx: Tx, after: int, n: int) -> Page:
    """Return the next rows of the log, and whether more wait to be moved there."""
    rows = await tx.all(sql.read_events, after=after, n=n)
    pruned = await tx.one(sql.events_pruned)
    more = len(rows) < n and await waits(tx)
    return Page(tuple(Chunk(*row) for row in rows), more, pruned[0] if pruned else 0)


async def relay(tx: Tx) -> int:
    """Move one batch of committed rows into the log; return how many; 0 while another process does so."""
    row = await tx.one(sql.relay_events, n=MOVED_AT_ONCE)
    if row is None:
        await tx.one(sql.make_event_head)
        row = await tx.one(sql.relay_events, n=MOVED_AT_ONCE)
    if row is None or not row[0]:
        return 0
    tx.notify(TOPIC)
    return int(row[0])


async def newest(tx: Tx) -> int:
    """Return the number of the newest row there ever was."""
    row = await tx.one(sql.newest_event)
    return int(row[0]) if row else 0


async def waits(tx: Tx) -> bool:
    """Return whether rows have been committed that are not in the log yet."""
    row = await tx.one(sql.inbox_waits)
    return bool(row and row[0])


async def old(tx: Tx, keep: int) -> int | None:
    """Return the last of the next rows to remove, which are older than `keep` microseconds."""
    rows = await tx.all(sql.old_events, n=_PRUNED_AT_ONCE, keep=keep)
    return max((seq for (seq,) in rows), default=None)


async def prune(tx: Tx, keep: int) -> int:
    """Remove a batch of rows older than `keep` microseconds; return the last of them, 0 if there is none."""
    upto = await old(tx, keep)
    if upto is None:
        return 0
    await tx.one(sql.mark_pruned, upto=upto)
    await tx.one(sql.prune_events, upto=upto)
    return upto


async def _put(tx: Tx, by_queue: Mapping[str, Sequence[_Facts]], level: str) -> None:
    """Write one row with the events of all these queues, as far as their settings record them."""
    if not by_queue:
        return
    if (asked := by_queue.get(_ASKED)) is not None:
        await tx.one(sql.put_events, queue=_ASKED, body=_encode(asked).decode(), level="outcomes")
        by_queue = {queue: facts for queue, facts in by_queue.items() if queue != _ASKED}
    if not by_queue:
        pass
    elif len(by_queue) == 1:
        # The most common case: the statement itself reads the queue's setting.
        ((queue, facts),) = by_queue.items()
        await tx.one(sql.put_events, queue=queue, body=_encode(facts).decode(), level=level)
    else:
        levels = {row[0]: row[1] for row in await tx.all(sql.queues_that_tell_otherwise)}
        facts = [
            one for queue in by_queue if levels.get(queue, "outcomes") in ("all", level) for one in by_queue[queue]
        ]
        if facts:
            await tx.one(sql.put_events, queue="", body=_encode(facts).decode(), level="outcomes")
    tx.notify(TOPIC)
