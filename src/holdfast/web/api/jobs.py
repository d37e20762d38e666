"""Jobs: find them, look at them, understand them."""

from __future__ import annotations

from ...shapes.ends import Outcome
from ...shapes.explaining import Count, Explanation, of_count, of_explanation
from ...shapes.jobs import Attempt, JobBrief, JobWithArtifacts, of_attempt, of_job, of_job_brief, with_artifacts
from ...shapes.pages import Page, cursor_at, place_at, whole
from ...shapes.steps import Step, of_step
from ..wire.call import Call
from ..wire.operation import Answered, Group
from .enqueueing import outcome_of
from .jobfilters import JobQuery, filter_of
from .types import Name, Waiting

group = Group("Jobs", "Find jobs, look at them, and learn why they are where they are.")


@group.get("/jobs", needs="read")
async def list_jobs(call: Call, query: JobQuery) -> Page[JobBrief]:
    """Jobs, newest first; with `order=ended` ended jobs, those that ended last first.

    Filters narrow each other; `state` may be given several times. What no index answers (`text`, `tag`, `created_by`,
    `reason`, `priority`, `min_attempts` and the times) is looked for among the next 10,000 jobs that the other filters
    leave: a page may then be short, or empty, and still have a `next`.
    """
    found = await call.client.jobs.asearch(filter_of(call, query, before=_place(query)))
    more = None if found.next is None else cursor_at((*_kind(query), found.next))
    return Page(items=[of_job_brief(job) for job in found.jobs], next=more)


@group.get("/jobs/counts", needs="read")
async def count_jobs(call: Call) -> Page[Count]:
    """How many jobs are in each state of each queue.

    A great number of finished jobs is not counted each time: those counts say that they are estimated.
    """
    return whole(await call.client.jobs.acounts(), of_count)


@group.get("/jobs/{job_id}", needs="read")
async def get_job(call: Call, job_id: Name) -> JobWithArtifacts:
    """One job, with all that is known of it."""
    jobs, payload = call.client.jobs, call.may("payload")
    job, attempts, demands, artifacts = (
        await jobs.aget(job_id, whole=payload),
        await jobs.aattempts(job_id),
        await jobs.ademands(job_id),
        await call.client.artifacts.alist(job_id),
    )
    return with_artifacts(of_job(job, attempts, demands, payload=payload), artifacts, payload=payload)


@group.get("/jobs/{job_id}/result", needs="read", also=(202,))
async def get_result(call: Call, job_id: Name, query: Waiting) -> Answered[Outcome]:
    """How a job ended.

    200 with its result or error; 202 with its state where it has not ended, after `wait` seconds.
    """
    return await outcome_of(call, job_id, query.wait)


@group.get("/jobs/{job_id}/attempts", needs="read")
async def list_attempts(call: Call, job_id: Name) -> Page[Attempt]:
    """The runs of a job that did not end in success, oldest first; at most 32."""
    await call.client.jobs.aget(job_id, whole=False)
    may = call.may("payload")
    return whole(await call.client.jobs.aattempts(job_id), lambda one: of_attempt(one, payload=may))


@group.get("/jobs/{job_id}/steps", needs="read")
async def list_steps(call: Call, job_id: Name) -> Page[Step]:
    """What a durable job has done so far, in the order in which it asked for it."""
    shown = call.may("payload")
    return whole(await call.client.jobs.asteps(job_id), lambda step: of_step(step, payload=shown))


@group.get("/jobs/{job_id}/explain", needs="read")
async def explain_job(call: Call, job_id: Name) -> Explanation:
    """Why a job is where it is, and what would move it."""
    return of_explanation(await call.client.jobs.aexplain(job_id))


def _place(query: JobQuery) -> str | None:
    return None if query.after is None else place_at(query.after, len(_kind(query)) + 1)[-1]


def _kind(query: JobQuery) -> tuple[str, ...]:
    """What tells a cursor of one order from that of the other."""
    return () if query.order == "created" else (query.order,)
