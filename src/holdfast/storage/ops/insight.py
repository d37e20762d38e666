"""Reads: one job, many jobs, counts, and what somebody who waits needs to know."""

from __future__ import annotations

import json
from collections.abc import Collection

from ...errors import Corruption, NotFound
from ...model.answers import JobFilter, JobPage
from ...model.job import Attempt, Ended, JobRecord, JobState
from ..port import Row, Tx
from ..statements import sql
from .counting import count_jobs as count_jobs
from .finding import find_ids, search_ids


async def get_job(tx: Tx, job_id: str) -> JobRecord:
    row = await tx.one(sql.get_job, id=job_id)
    if row is None:
        raise NotFound("job", job_id)
    return _job(row)


async def attempts_of(tx: Tx, job_id: str) -> list[Attempt]:
    """The runs that did not end in success, oldest first."""
    return [Attempt(*row) for row in await tx.all(sql.job_attempts, job_id=job_id)]


async def list_jobs(tx: Tx, wanted: JobFilter) -> list[JobRecord]:
    """Jobs, newest first."""
    found = await find_ids(tx, wanted, before=wanted.before, n=wanted.limit)
    return [_job(row) for row in await tx.all(sql.jobs_by_id, ids=json.dumps(found))]


async def search_jobs(tx: Tx, wanted: JobFilter, most: int) -> JobPage:
    """Jobs, newest first; what no index answers is looked for among at most `most` of them."""
    found = await search_ids(tx, wanted, before=wanted.before, n=wanted.limit, most=most)
    rows = await tx.all(sql.jobs_by_id, ids=json.dumps(found.ids))
    return JobPage(tuple(_job(row) for row in rows), found.next)


async def outcomes_of(tx: Tx, ids: Collection[str]) -> list[Ended]:
    """Those of `ids` that have ended."""
    rows = await tx.all(sql.outcomes_of, ids=json.dumps(list(ids)))
    return [Ended(id, JobState(state), *rest) for id, state, *rest in rows]


async def queue_states(tx: Tx) -> dict[str, str]:
    """Queues that were ever given a state; any other is active."""
    return dict(await tx.all(sql.queue_states))


async def clock(tx: Tx) -> int:
    """The store's own time in microseconds."""
    row = await tx.one(sql.database_clock)
    assert row is not None
    return int(row[0])


def _job(row: Row) -> JobRecord:
    try:
        return JobRecord.from_row(row)
    except ValueError as wrong:
        raise Corruption(f"job {row[0]} has a state that this version does not know: {row[5]!r}") from wrong
