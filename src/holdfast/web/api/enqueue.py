"""Jobs in requests: a task by name, its arguments and options."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from starlette.responses import Response

from ...errors import NotFound, ResultTimeout, UnknownTask
from ...model.access import Identity
from ...model.jobs import JobRecord, OnDuplicate
from ...names import MAX_ATTEMPTS, MAX_PRIORITY, MAX_TAGS, MIN_PRIORITY, TAG_BYTES
from ...rules.access import check_within
from ...rules.retry import RetryPolicy
from ...shapes.jobs import Accepted, AcceptedMany, KeyedResult, Outcome, of_keyed_result, of_outcome
from ...tasks.job import Job
from ...tasks.options import CallOptions
from ...tasks.task import JobRequest, Task
from ..wire import sse
from ..wire.call import Call
from ..wire.confine import check_job
from ..wire.dispatch import IDENTITY
from ..wire.failures import Refused
from ..wire.operation import Answered, Group
from ..wire.seats import SEATS, Seats
from .types import Name, QueueName, ResultKey, Seconds, Waiting

MOST: Final = 10_000
"""The maximum number of jobs in one call."""
STORABLE: Final = r"^[^\x00]+$"
"""Postgres cannot store text with a NUL character."""
Priority: TypeAlias = Annotated[int, msgspec.Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY)]
Instant: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
Tag: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=TAG_BYTES)]
_Attempts: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_ATTEMPTS)]
_Running: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Year: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=366 * 86_400)]
_Reserve: TypeAlias = Annotated[dict[Name, dict[Name, int | float]], msgspec.Meta(max_length=64)]
_Tags: TypeAlias = (
    Annotated[list[Tag], msgspec.Meta(max_length=MAX_TAGS)]
    | Annotated[dict[Tag, Tag | int], msgspec.Meta(max_length=MAX_TAGS)]
)
_Url: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=2048, pattern=STORABLE)]


class RetryRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The delay before each retry, in seconds."""

    kind: Literal["none", "fixed", "exponential"] = "exponential"
    initial: _Year = 2.0
    factor: _Year = 2.0
    cap: _Year = 900.0
    jitter: Literal["none", "full", "additive"] = "additive"
    spread: _Year = 0.25
    max_age: Annotated[float, msgspec.Meta(gt=0)] | None = None


class JobOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options that override those of the task. Durations are in seconds.

    Options left out keep the task's value; null means none: unlimited attempts, no timeout, no rate.
    """

    id: QueueName | None = None
    queue: QueueName | None = None
    priority: Priority | None = None
    delay: Seconds | None = None
    at: Instant | None = None
    deadline: Seconds | Instant | None = None
    timeout: Seconds | msgspec.UnsetType | None = msgspec.UNSET
    max_attempts: _Attempts | msgspec.UnsetType | None = msgspec.UNSET
    retry: RetryRule | msgspec.UnsetType | None = msgspec.UNSET
    tags: _Tags = []
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=256, pattern=STORABLE)] | None = None
    tenant: Name | None = None
    dedupe_key: Name | None = None
    dedupe_scope: Name | None = None
    dedupe_until: Literal["start", "failure", "finish"] | Seconds = "finish"
    on_duplicate: OnDuplicate = "existing"
    concurrency_key: Name | None = None
    concurrency: _Running | None = None
    fair_key: Name | None = None
    weight: Annotated[float, msgspec.Meta(ge=0.01, le=64)] = 1.0
    rate: Name | msgspec.UnsetType | None = msgspec.UNSET
    rate_key: Name | None = None
    breaker: Name | msgspec.UnsetType | None = msgspec.UNSET
    quota: Name | msgspec.UnsetType | None = msgspec.UNSET
    reserve: _Reserve | msgspec.UnsetType | None = msgspec.UNSET
    requires: Annotated[list[QueueName], msgspec.Meta(max_length=256)] | None = None
    affinity: QueueName | msgspec.UnsetType | None = msgspec.UNSET
    version: Name | None = None
    webhook: _Url | None = None
    webhook_events: Annotated[list[Name], msgspec.Meta(max_length=32)] = []


class NewJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job to enqueue. Arguments are given by name, or in the order of the task's parameters."""

    task: Name
    arguments: dict[str, Any] | list[Any] = {}
    options: JobOptions | None = None


class NewJobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Jobs to enqueue together: all or none."""

    jobs: Annotated[list[NewJob], msgspec.Meta(min_length=1, max_length=MOST)]
    result_keys: Annotated[bool, msgspec.Meta(description="Include a result key for each job in the response.")] = False


class Awaited(NewJob, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job to enqueue and wait for."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=60, description="Seconds to wait for it to finish.")] = 30.0


def request_of(call: Call, new: NewJob) -> JobRequest[Any]:
    """Return the validated call. Raises UnknownTask if the app does not know the task, unless any name is allowed."""
    request = task_of(call, new.task).read(new.arguments, None if new.options is None else _options(call, new.options))
    _check_confined(call.identity, request)
    return request


def task_of(call: Call, name: str) -> Task[..., Any]:
    """Return the task. Raises UnknownTask if the app does not know it, unless any name is allowed."""
    if (task := call.app.tasks.get(name)) is not None:
        return task
    if not call.settings.any_task:
        raise UnknownTask(
            f"unknown task {name!r}; GET /api/v1/tasks lists the known ones. Declare a task that is implemented "
            "elsewhere with app.declare, or serve with any_task=True to accept every name"
        )
    return call.app.external_task(name)


def _check_confined(identity: Identity, request: JobRequest[Any]) -> None:
    """Raise AccessDenied if the caller is restricted to other queues or tasks."""
    if not identity.is_confined:
        return
    check_within("queue", request.options.queue or request.task.task_options.queue, identity.queues)
    check_within("task", request.task.name, identity.tasks)
    # With the dedupe key of another task it could replace a job of that task.
    scope = request.options.dedupe_scope
    if scope is not None:
        check_within("dedupe scope", scope, (request.task.name,))


def _options(call: Call, given: JobOptions) -> CallOptions:
    if given.webhook is not None and not call.may("payload"):
        raise Refused(403, "forbidden", "Missing scope: payload; the job's webhook would receive its result")
    said = {name: value for name, value in msgspec.structs.asdict(given).items() if value is not msgspec.UNSET}
    # A tenant has its own rates and breakers: its jobs must not hold up those of others.
    said["limits_tenant"] = call.identity.tenant
    if isinstance(given.retry, RetryRule):
        said["retry"] = RetryPolicy(**msgspec.structs.asdict(given.retry))
    return CallOptions(**said)


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
            yield _said("frame", frame.encoded, frame.cursor)
    await call.client.jobs.await_(job.id, None)
    yield _said("result", of_outcome(await call.client.jobs.aget(job.id), payload=call.may("payload")))


async def _accepted(job: Job[Any]) -> Accepted:
    return Accepted(id=job.id, created=job.created, result_key=await _key(job))


async def _key(job: Job[Any]) -> str | None:
    # An existing job with the same dedupe key may belong to another caller.
    return await job.aresult_key() if job.created else None


def _said(event: str, value: msgspec.Struct, id: str | None = None) -> sse.Said:
    return sse.Said(msgspec.json.encode(value).decode(), event=event, id=id)
