"""Enqueue: one job, many, or one whose end the caller waits for or follows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from starlette.responses import Response

from ...errors import ResultTimeout
from ...shapes.ends import Accepted, AcceptedMany, Outcome, of_outcome
from ...shapes.streams import of_frame
from ...tasks import JobRequest
from ..wire import sse
from ..wire.call import Call
from ..wire.operation import Answered, Group
from .newjobs import Awaited, NewJob, NewJobs, request_of

group = Group("Enqueue", "Work is stored before it is done: whoever is told an id need not stay.")

_STRETCH: Final = 500
"""Jobs that are checked before others have the loop."""


@group.post("/jobs", needs="enqueue", status=201, also=(200,))
async def enqueue(call: Call, body: NewJob) -> Answered[Accepted]:
    """Enqueue a job.

    201 with the id of the new job; 200 with that of an earlier one that holds its id or its dedupe key.
    """
    job = await call.client.aenqueue(request_of(call, body))
    return Answered(Accepted(id=job.id, created=job.created), 201 if job.created else 200)


@group.post("/jobs/bulk", needs="enqueue", status=201, bulk=True)
async def enqueue_many(call: Call, body: NewJobs) -> AcceptedMany:
    """Enqueue up to 10,000 jobs in one transaction: all of them, or none.

    The ids come in the order of the jobs. The body may have 16 MiB.
    """
    requests: list[JobRequest[Any]] = []
    for start in range(0, len(body.jobs), _STRETCH):
        requests += [request_of(call, new) for new in body.jobs[start : start + _STRETCH]]
        await asyncio.sleep(0)
    jobs = await call.client.aenqueue_many(requests)
    return AcceptedMany(ids=[job.id for job in jobs], created=sum(job.created for job in jobs))


@group.post("/jobs/run", needs="enqueue", also=(202,))
async def run(call: Call, body: Awaited) -> Answered[Outcome]:
    """Enqueue a job and wait for its end.

    200 with its result or error; 202 where it has not ended after `wait` seconds: it goes on, as it does when the
    caller goes away. Ask for its result later.
    """
    job = await call.client.aenqueue(request_of(call, body))
    return await outcome_of(call, job.id, body.wait)


@group.post("/jobs/stream", needs="enqueue", media=sse.MEDIA)
async def run_and_follow(call: Call, body: NewJob) -> Response:
    """Enqueue a job and follow what it says, as server-sent events.

    `accepted` names the job, each `frame` is a piece of what it says, `result` comes last and says how it ended. When
    the caller goes away the job goes on; GET /jobs/{id}/stream follows it again. Frames and the result are shown to
    those who may see payloads.
    """
    return sse.stream(_followed(call, request_of(call, body)))


async def outcome_of(call: Call, job_id: str, wait: float) -> Answered[Outcome]:
    """How a job has ended within so many seconds, or how it stands."""
    jobs = call.client.jobs
    if wait > 0:
        with contextlib.suppress(ResultTimeout):
            await jobs.await_(job_id, wait)
    found = of_outcome(await jobs.aget(job_id), payload=call.may("payload"))
    return Answered(found, 200 if found.ended else 202)


async def _followed(call: Call, request: JobRequest[Any]) -> AsyncIterator[sse.Said]:
    # Enqueued only now that the caller has a seat: who is refused one has enqueued nothing.
    job = await call.client.aenqueue(request)
    yield _said("accepted", Accepted(id=job.id, created=job.created))
    if call.may("payload"):
        async for frame in call.client.astream(job.id):
            yield _said("frame", of_frame(frame), frame.cursor)
    await call.client.jobs.await_(job.id, None)
    yield _said("result", of_outcome(await call.client.jobs.aget(job.id), payload=call.may("payload")))


def _said(event: str, value: msgspec.Struct, id: str | None = None) -> sse.Said:
    return sse.Said(msgspec.json.encode(value).decode(), event=event, id=id)
