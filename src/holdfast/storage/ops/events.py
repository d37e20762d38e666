"""The log of what happened. A transaction leaves one row with all it has to tell; readers follow by their numbers.

The schema tells of most transitions by itself, whoever makes them. Starts, successes and bulk enqueues come by the
hundred: they are told here, many in one row, in the transaction that makes them.
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
"""Stands for a queue that tells all: for jobs that ask to be told of."""
_Facts = tuple[Any, ...]
"""What is told of one of many jobs, in the order in which model.event reads it."""


async def succeeded(tx: Tx, owner: str, finishes: Sequence[Finish], rows: Sequence[Row | None]) -> None:
    """Tell of the successes among these; each row is what was stored of its job."""
    told: dict[str, list[_Facts]] = {}
    for finish, row in zip(finishes, rows, strict=True):
        if row is not None:
            _, queue, task, tenant, attempts, tags, flow, *_ = row
            told.setdefault(_ASKED if tags and asks_for_ends(tags) else queue, []).append(
                (finish.id, task, queue, tenant, "running", "succeeded", attempts, finish.epoch, owner, tags, flow)
            )
    await _put(tx, told, "outcomes")


async def started(tx: Tx, owner: str, jobs: Sequence[Claimed]) -> None:
    """Tell of jobs that begin to run."""
    told: dict[str, list[_Facts]] = {}
    for job in jobs:
        told.setdefault(_ASKED if job.tags and asks_for_all(job.tags) else job.queue, []).append(
            (job.id, job.task, job.queue, job.tenant, "ready", "running", job.attempt, job.epoch, owner, job.tags,
             job.flow)
        )  # fmt: skip
    await _put(tx, told, "all")


async def copied(tx: Tx, ids: Sequence[str]) -> None:
    """Tell of jobs that were stored as they are."""
    await tx.one(sql.tell_copied, ids=_encode(ids).decode())
    tx.ring(TOPIC)


async def asked(tx: Tx, ids: Sequence[str]) -> None:
    """Tell of new jobs that ask for it, as far as their queues have not told of them."""
    if ids:
        await tx.one(sql.tell_asked, ids=_encode(ids).decode())
        tx.ring(TOPIC)


async def stages(tx: Tx, job_id: str, run: str, stages: Sequence[str]) -> None:
    """Tell which stages a run has reported, each once in a row."""
    row = await tx.one(sql.stage_of, job_id=job_id, run=run)
    before = row[0] if row else None
    for stage in stages:
        if stage != before:
            await tx.one(sql.tell_stage, job_id=job_id, stage=stage, before=before)
            before = stage
    tx.ring(TOPIC)


async def hear_or_ignore(tx: Tx) -> None:
    """After a queue's setting changed: whether new jobs are told of at all."""
    loud = await tx.one(sql.any_loud_queue)
    await tx.one(sql.hear_new_jobs if loud else sql.ignore_new_jobs)


async def read(tx: Tx, after: int, n: int) -> Page:
    """The next rows of the log, and whether more wait to be moved there."""
    rows = await tx.all(sql.read_events, after=after, n=n)
    pruned = await tx.one(sql.events_pruned)
    more = len(rows) < n and await waits(tx)
    return Page(tuple(Chunk(*row) for row in rows), more, pruned[0] if pruned else 0)


async def relay(tx: Tx) -> int:
    """Move one batch of committed rows into the log; how many. Where another does so just now, none."""
    row = await tx.one(sql.relay_events, n=MOVED_AT_ONCE)
    if row is None:
        await tx.one(sql.make_event_head)
        row = await tx.one(sql.relay_events, n=MOVED_AT_ONCE)
    if row is None or not row[0]:
        return 0
    tx.ring(TOPIC)
    return int(row[0])


async def newest(tx: Tx) -> int:
    """The number of the newest row there ever was."""
    row = await tx.one(sql.newest_event)
    return int(row[0]) if row else 0


async def waits(tx: Tx) -> bool:
    """Whether rows have been committed that are not in the log yet."""
    row = await tx.one(sql.inbox_waits)
    return bool(row and row[0])


async def old(tx: Tx, keep: int) -> int | None:
    """The last of the next rows to be removed, which are older than `keep` microseconds."""
    rows = await tx.all(sql.old_events, n=_PRUNED_AT_ONCE, keep=keep)
    return max((seq for (seq,) in rows), default=None)


async def prune(tx: Tx, keep: int) -> int:
    """Remove a batch of rows that are older than `keep` microseconds; the last of them, 0 if there is none."""
    upto = await old(tx, keep)
    if upto is None:
        return 0
    await tx.one(sql.mark_pruned, upto=upto)
    await tx.one(sql.prune_events, upto=upto)
    return upto


async def _put(tx: Tx, told: Mapping[str, Sequence[_Facts]], level: str) -> None:
    """One row for what is told of all these queues, as far as they tell it."""
    if not told:
        return
    if (asked := told.get(_ASKED)) is not None:
        await tx.one(sql.put_events, queue=_ASKED, body=_encode(asked).decode(), level="outcomes")
        told = {queue: facts for queue, facts in told.items() if queue != _ASKED}
    if not told:
        pass
    elif len(told) == 1:
        # What most turns are: the statement itself looks at the queue's setting.
        ((queue, facts),) = told.items()
        await tx.one(sql.put_events, queue=queue, body=_encode(facts).decode(), level=level)
    else:
        levels = {row[0]: row[1] for row in await tx.all(sql.queues_that_tell_otherwise)}
        facts = [one for queue in told if levels.get(queue, "outcomes") in ("all", level) for one in told[queue]]
        if facts:
            await tx.one(sql.put_events, queue="", body=_encode(facts).decode(), level="outcomes")
    tx.ring(TOPIC)
