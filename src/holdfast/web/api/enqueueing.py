"""Enqueueing: one job, many, or one whose result the caller waits for or streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from starlette.responses import Response

from ...errors import NotFound, ResultTimeout
from ...model.jobs import JobRecord
from ...shapes.jobs import Accepted, AcceptedMany, KeyedResult, Outcome, of_keyed_result, of_outcome
from ...shapes.streams import of_frame
from ...tasks.job import Job
from ...tasks.task import JobRequest
from ..wire import sse
from ..wire.call import Call
from ..wire.confine import check_job
from ..wire.dispatch import IDENTITY
from ..wire.failures import Refused
from ..wire.operation import Answered, Group
from ..wire.seats import SEATS, Seats
from .newjobs import Awaited, NewJob, NewJobs, request_of
from .types import ResultKey, Waiting

group = Group("Enqueue", "Jobs are stored before they run: once the client has an id, it can disconnect.")

_STRETCH: Final = 500
"""The number of jobs validated before yielding to the event loop."""


@group.post("/jobs", needs="enqueue", status=201, also=(200,), confines=True)
async def enqueue(call: Call, body: NewJob) -> Answered[Accepted]:
    """Enqueue a job.

    201 with the id of the new job; 200 with the id of an existing job that has the same id or dedupe key.
    """
    job = await call.client.aenqueue(request_of(call, body))
    return Answered(await _accepted(job), 201 if job.created else 200)


@group.post("/jobs/bulk", needs="enqueue", status=201, bulk=True, confines=True)
async def enqueue_many(call: Call, body: NewJobs) -> AcceptedMany:
    """Enqueue up to 10,000 jobs in one transaction: all or none.

    The ids come in the order of the jobs. The body may have 16 MiB.
    """
    requests: list[JobRequest[Any]] = []
    for start in range(0, len(body.jobs), _STRETCH):
        requests += [request_of(call, new) for new in body.jobs[start : start + _STRETCH]]
        await asyncio.sleep(0)
    jobs = await call.client.aenqueue_many(requests)
    keys = [await _key(job) for job in jobs] if body.result_keys else None
    return AcceptedMany(ids=[job.id for job in jobs], created=sum(job.created for job in jobs), result_keys=keys)


@group.post("/jobs/run", needs="enqueue", also=(202,), confines=True)
async def run(call: Call, body: Awaited) -> Answered[Outcome]:
    """Enqueue a job and wait for its result.

    200 with its result or error; 202 if it has not finished after `wait` seconds: the job continues, also when the
    caller disconnects. Ask for its result later.
    """
    job = await call.client.aenqueue(request_of(call, body))
    return await outcome_of(call, job.id, body.wait)


@group.post("/jobs/stream", needs="enqueue", media=sse.MEDIA, confines=True)
async def run_and_follow(call: Call, body: NewJob) -> Response:
    """Enqueue a job and stream its output as server-sent events.

    `accepted` names the job, each `frame` is a piece of its output, and `result` comes last with its outcome. The job
    continues when the caller disconnects; GET /jobs/{id}/stream resumes the stream. Frames and the result need the
    scope `payload`.
    """
    return sse.stream(_followed(call, request_of(call, body)))


@group.get("/results/{key}", needs="nothing", also=(202,))
async def get_keyed_result(call: Call, key: ResultKey, query: Waiting) -> Answered[KeyedResult]:
    """Get a job's result with its result key, without a token.

    200 with its result or a redacted error; 202 with `pending` if it has not finished after `wait` seconds; 404 if the
    key is wrong or the job is no longer stored.
    """
    try:
        job_id = await call.app.jobs._keys.ajob(key)
        found = of_keyed_result(await _ended(call, job_id, query.wait))
    except NotFound:
        raise Refused(404, "not_found", "there is no result for this key, or it is no longer stored") from None
    return Answered(found, 202 if found.status == "pending" else 200)


async def _ended(call: Call, job_id: str, wait: float) -> JobRecord:
    """Return the job after it has finished or the wait is over. Callers without a token take a seat, like streams."""
    if wait > 0:
        seats: Seats = call.request.scope[SEATS]
        seat = seats.take(call.request.scope, call.request.scope.get(IDENTITY))
        try:
            with contextlib.suppress(ResultTimeout):
                await call.app.jobs.await_(job_id, wait)
        finally:
            seats.leave(seat)
    return await call.app.jobs.aget(job_id)


async def outcome_of(call: Call, job_id: str, wait: float) -> Answered[Outcome]:
    """Return the job's outcome within some seconds, or its current state."""
    jobs = call.client.jobs
    if wait > 0:
        with contextlib.suppress(ResultTimeout):
            await jobs.await_(job_id, wait)
    job = await jobs.aget(job_id, whole=call.may("payload"))
    found = of_outcome(check_job(call.identity, job), payload=call.may("payload"))
    return Answered(found, 200 if found.ended else 202)


async def _followed(call: Call, request: JobRequest[Any]) -> AsyncIterator[sse.Said]:
    # Enqueued only now that the caller has a seat: a caller without one has enqueued nothing.
    job = await call.client.aenqueue(request)
    check_job(call.identity, await call.client.jobs.aget(job.id, whole=False))
    yield _said("accepted", await _accepted(job))
    if call.may("payload"):
        async for frame in call.client.astream(job.id):
            yield _said("frame", of_frame(frame), frame.cursor)
    await call.client.jobs.await_(job.id, None)
    yield _said("result", of_outcome(await call.client.jobs.aget(job.id), payload=call.may("payload")))


async def _accepted(job: Job[Any]) -> Accepted:
    return Accepted(id=job.id, created=job.created, result_key=await _key(job))


async def _key(job: Job[Any]) -> str | None:
    # An existing job with the same dedupe key may belong to another caller.
    return await job.aresult_key() if job.created else None


def _said(event: str, value: msgspec.Struct, id: str | None = None) -> sse.Said:
    return sse.Said(msgspec.json.encode(value).decode(), event=event, id=id)
