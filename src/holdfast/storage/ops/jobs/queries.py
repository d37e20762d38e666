"""Reads: one job, many jobs, counts, and the outcomes that callers wait for."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

from ....errors import Corruption, NotFound
from ....model.answers import JobFilter, JobPage
from ....model.jobs import Attempt, Demands, Ended, JobRecord, JobState, last_error
from ....model.limits import JobLimits, key_lane
from ....model.values import is_reference
from ....rules.budgets import exact
from ...port import Row, Tx
from ...statements import sql
from ..routing.routes import route_of
from . import values
from .counting import count_jobs as count_jobs
from .finding import find_ids, search_ids


async def get_job(tx: Tx, job_id: str) -> JobRecord:
    """Return a job, without its large values."""
    row = await tx.one(sql.get_job, id=job_id)
    if row is None:
        raise NotFound("job", job_id)
    return _job(row)


async def whole_job(tx: Tx, job_id: str) -> JobRecord:
    """Return a job with its arguments and its result, where these are kept in blobs."""
    return await _whole(tx, await get_job(tx, job_id))


async def demands(tx: Tx, job_id: str) -> Demands:
    """Return a job's requirements: route and limits. NotFound if there is no such job."""
    job = await get_job(tx, job_id)
    route = await route_of(tx, job)
    limits = JobLimits.decode(job.limits) if job.limits else JobLimits()
    webhook = await tx.all(sql.callbacks_of, ids=json.dumps([job_id]))
    return Demands(
        requires=tuple(sorted(route.requires)),
        affinity=route.affinity or None,
        version=route.version.removeprefix(f"{job.task} ") or None,
        concurrency_key=None if limits.key is None else limits.key.removeprefix(key_lane(job.tenant, "")),
        concurrency=limits.capacity,
        rate=limits.rate,
        breaker=limits.breaker,
        quota=limits.quota,
        reserve={
            budget: {name: exact(amount) for name, amount in amounts.items()}
            for budget, amounts in (limits.reserve or {}).items()
        },
        webhook=webhook[0][1] if webhook else None,
    )


async def attempts_of(tx: Tx, job_id: str) -> list[Attempt]:
    """Return the runs that did not end in success, oldest first."""
    return [Attempt(*row) for row in await tx.all(sql.job_attempts, job_id=job_id)]


async def list_jobs(tx: Tx, wanted: JobFilter) -> list[JobRecord]:
    """List jobs, newest first."""
    found = await find_ids(tx, wanted, before=wanted.before, n=wanted.limit)
    return [await _whole(tx, job) for job in await _in_order(tx, found)]


async def search_jobs(tx: Tx, wanted: JobFilter, most: int) -> JobPage:
    """Search jobs, newest first; conditions without an index are checked on at most `most` of them.

    Large values are not read: a page shows their sizes.
    """
    found = await search_ids(tx, wanted, before=wanted.before, n=wanted.limit, most=most)
    return JobPage(tuple(await _in_order(tx, found.ids)), found.next)


async def _in_order(tx: Tx, ids: Sequence[str]) -> list[JobRecord]:
    rows = {row[0]: row for row in await tx.all(sql.jobs_by_id, ids=json.dumps(ids))}
    return [_job(rows[id]) for id in ids if id in rows]


async def outcomes_of(tx: Tx, ids: Collection[str]) -> list[Ended]:
    """Return the outcomes of those of `ids` that have ended."""
    ended = await bare_outcomes_of(tx, ids)
    return [replace(end, result=await values.load_any(tx, end.result)) for end in ended]


async def bare_outcomes_of(tx: Tx, ids: Collection[str]) -> list[Ended]:
    """Return the outcomes of those that have ended, without large results."""
    rows = await tx.all(sql.outcomes_of, ids=json.dumps(list(ids)))
    return [
        Ended(id, JobState(state), result, last_error(state, reason, error), reason)
        for id, state, result, error, reason in rows
    ]


async def queue_states(tx: Tx) -> dict[str, str]:
    """Return the states of queues that were ever given one; any other is active."""
    return dict(await tx.all(sql.queue_states))


async def clock(tx: Tx) -> int:
    """Return the store's own time in microseconds."""
    row = await tx.one(sql.database_clock)
    assert row is not None
    return int(row[0])


async def _whole(tx: Tx, job: JobRecord) -> JobRecord:
    if not (is_reference(job.payload) or is_reference(job.result)):
        return job
    payload, result = await values.load(tx, job.payload), await values.load_any(tx, job.result)
    return replace(job, payload=payload, result=result)


def _job(row: Row) -> JobRecord:
    try:
        return JobRecord.from_row(row)
    except ValueError as wrong:
        raise Corruption(f"job {row[0]} has a state that this version does not know: {row[5]!r}") from wrong
