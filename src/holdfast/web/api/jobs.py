"""Job filters, as a query and as part of a body."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import structs

from ...clock import SECOND
from ...model.answers import Count, JobFilter
from ...model.jobs import JobState
from ...model.steps import StepInfo
from ...names import CREATOR_BYTES, TAG_BYTES, check_instant
from ...rules.explain import Explanation
from ...shapes.jobs import (
    Attempt,
    JobBrief,
    JobWithArtifacts,
    Outcome,
    of_attempt,
    of_job,
    of_job_brief,
    with_artifacts,
)
from ..search.aside import aside
from ..wire.call import Call
from ..wire.failures import Refused
from ..wire.operation import Answered, Group
from .enqueue import STORABLE, Instant, Priority, outcome_of
from .paging import Page, cursor_at, place_at, whole
from .types import Cursor, Name, QueueName, Seconds, Waiting

_Prefix: TypeAlias = Annotated[
    str, msgspec.Meta(min_length=1, max_length=128, pattern=STORABLE, description="A prefix of the id.")
]
_Text: TypeAlias = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=256, pattern=STORABLE, description="Text in the stored arguments or error."),
]
_Label: TypeAlias = Annotated[
    Literal["delayed", "retrying", "throttled"],
    msgspec.Meta(description="Ready jobs that are not due yet, by reason."),
]
_Tag: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=TAG_BYTES, pattern=STORABLE)]
_Creator: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=CREATOR_BYTES,
        pattern=STORABLE,
        description="The actor that enqueued it, such as token:shop.",
    ),
]
_Tries: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
_Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=500)]


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters on jobs. "After" includes its time, "before" does not; `older_than` is seconds since the end."""

    state: list[JobState] = []
    label: _Label | None = None
    queue: QueueName | None = None
    task: Name | None = None
    tenant: Name | None = None
    reason: Name | None = None
    id: _Prefix | None = None
    flow: Name | None = None
    worker: Name | None = None
    affinity: QueueName | None = None
    tag: _Tag | None = None
    text: _Text | None = None
    created_by: _Creator | None = None
    priority: Priority | None = None
    min_attempts: _Tries | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    finished_after: Instant | None = None
    finished_before: Instant | None = None
    older_than: Seconds | None = None


class JobQuery(Wanted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters on jobs, and the position in the list."""

    order: Literal["created", "ended"] = "created"
    limit: _Limit = 50
    after: Cursor | None = None


def filter_of(call: Call, wanted: Wanted, before: str | None = None) -> JobFilter:
    """Return the filter as the client takes it. Searching in arguments needs the scope `payload`."""
    if wanted.text is not None and not call.may("payload"):
        raise Refused(
            403,
            "forbidden",
            "Missing scope: payload (text is searched in arguments)",
        )
    said: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(wanted).items() if name not in ("state", "after")
    }
    for name in ("created_after", "created_before", "finished_after", "finished_before"):
        said[name] = None if said[name] is None else check_instant(name, said[name])
    said["older_than"] = None if wanted.older_than is None else round(wanted.older_than * SECOND)
    states = tuple(dict.fromkeys(map(str, wanted.state)))
    if len(states) == 1:
        return JobFilter(state=states[0], before=before, **said)
    return JobFilter(states=states or None, before=before, **said)


group = Group("Jobs", "List and read jobs, and explain their state.")


@group.get("/jobs", needs="read")
async def list_jobs(call: Call, query: JobQuery) -> Page[JobBrief]:
    """List jobs, newest first; with `order=ended`, finished jobs, latest first.

    Filters are combined; `state` can be repeated. Filters without an index (`text`, `tag`, `created_by`, `reason`,
    `priority`, `min_attempts` and the times) check the next 10,000 jobs that the other filters leave: a page may be
    short or empty and still have a `next`.
    """
    wanted, jobs = filter_of(call, query, before=_place(query)), call.client.jobs
    found = await (jobs.asearch(wanted) if wanted.text is None else aside(jobs, jobs.search, wanted))
    more = None if found.next is None else cursor_at((*_kind(query), found.next))
    return Page(items=[of_job_brief(job) for job in found.jobs], next=more)


@group.get("/jobs/counts", needs="read")
async def count_jobs(call: Call) -> Page[Count]:
    """Count the jobs in each state of each queue.

    Large numbers of finished jobs are estimated, and marked so.
    """
    return whole(await call.client.jobs.acounts())


@group.get("/jobs/{job_id}", needs="read", shows_payload=True)
async def get_job(call: Call, job_id: Name) -> JobWithArtifacts:
    """Get a job with all its details."""
    jobs, payload = call.client.jobs, call.may("payload")
    job, attempts, demands, artifacts = (
        await jobs.aget(job_id, whole=payload),
        await jobs.aattempts(job_id),
        await jobs.ademands(job_id),
        await call.client.artifacts.alist(job_id),
    )
    return with_artifacts(of_job(job, attempts, demands, payload=payload), artifacts, payload=payload)


@group.get("/jobs/{job_id}/result", needs="read", also=(202,), shows_payload=True)
async def get_result(call: Call, job_id: Name, query: Waiting) -> Answered[Outcome]:
    """Get a job's result.

    200 with its result or error; 202 with its state if it has not finished after `wait` seconds.
    """
    return await outcome_of(call, job_id, query.wait)


@group.get("/jobs/{job_id}/attempts", needs="read", shows_payload=True)
async def list_attempts(call: Call, job_id: Name) -> Page[Attempt]:
    """List a job's unsuccessful attempts, oldest first; at most 32."""
    await call.client.jobs.aget(job_id, whole=False)
    may = call.may("payload")
    return whole([of_attempt(one, payload=may) for one in await call.client.jobs.aattempts(job_id)])


@group.get("/jobs/{job_id}/steps", needs="read", shows_payload=True)
async def list_steps(call: Call, job_id: Name) -> Page[StepInfo]:
    """List a durable job's recorded steps, in order."""
    found = await call.client.jobs.asteps(job_id)
    return whole(found if call.may("payload") else [structs.replace(step, value=None, error=None) for step in found])


@group.get("/jobs/{job_id}/explain", needs="read")
async def explain_job(call: Call, job_id: Name) -> Explanation:
    """Explain why a job is in its state, and what would change that."""
    explanation: Explanation = await call.client.jobs.aexplain(job_id)
    return explanation


def _place(query: JobQuery) -> str | None:
    return None if query.after is None else place_at(query.after, len(_kind(query)) + 1)[-1]


def _kind(query: JobQuery) -> tuple[str, ...]:
    """Return the prefix that distinguishes the cursors of the two orders."""
    return () if query.order == "created" else (query.order,)
