"""Find jobs that a test expects to have been enqueued; if they are missing, list those that were."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..app import App
    from ..model.jobs import JobRecord
    from ..tasks.task import JobRequest, Task

_MOST_LISTED: Final = 20


def assert_enqueued(
    app: App,
    wanted: Task[..., Any] | JobRequest[Any],
    *,
    queue: str | None = None,
    tenant: str | None = None,
    count: int | None = None,
) -> list[JobRecord]:
    """Fail unless such jobs were enqueued, whatever their state now; return those that match, the oldest first.

    `wanted` is a task, or a call of it with the arguments to look for: `assert_enqueued(app, welcome.job(42))`.
    `count` is the required number, 0 for none; without it, at least one.
    """
    __tracebackhide__ = True
    jobs = _all_jobs(app)
    matching = [job for job in jobs if _matches(job, wanted, queue, tenant)]
    if (not matching) if count is None else (len(matching) != count):
        raise AssertionError(_complaint(wanted, queue, tenant, count, len(matching), jobs))
    return matching


def _all_jobs(app: App) -> list[JobRecord]:
    from ..model.answers import JobFilter

    jobs: list[JobRecord] = []
    while page := app.jobs.find(JobFilter(before=jobs[-1].id if jobs else None, limit=1000)):
        jobs += page
    return jobs[::-1]


def _matches(job: JobRecord, wanted: Task[..., Any] | JobRequest[Any], queue: str | None, tenant: str | None) -> bool:
    task, payload = _asked(wanted)
    return (
        job.task == task
        and (payload is None or json.loads(job.payload) == json.loads(payload))
        and queue in (None, job.queue)
        and tenant in (None, job.tenant)
    )


def _asked(wanted: Task[..., Any] | JobRequest[Any]) -> tuple[str, str | None]:
    from ..tasks.task import JobRequest

    return (wanted.task.name, wanted.payload) if isinstance(wanted, JobRequest) else (wanted.name, None)


def _complaint(
    wanted: Task[..., Any] | JobRequest[Any],
    queue: str | None,
    tenant: str | None,
    count: int | None,
    found: int,
    jobs: list[JobRecord],
) -> str:
    task, payload = _asked(wanted)
    conditions = [f"{name}={value!r}" for name, value in (("queue", queue), ("tenant", tenant)) if value is not None]
    what = " ".join([f"{task}({_arguments(payload)})", *conditions])
    number = "at least one" if count is None else str(count)
    lines = [f"expected {number} of {what}, found {found}", *_listing(jobs)]
    return "\n".join(lines)


def _listing(jobs: list[JobRecord]) -> list[str]:
    if not jobs:
        return ["nothing was enqueued"]
    lines = [f"  {job.task}({_arguments(job.payload)}) queue={job.queue!r} {job.state}" for job in jobs[:_MOST_LISTED]]
    more = [f"  … and {len(jobs) - _MOST_LISTED:,} more"] if len(jobs) > _MOST_LISTED else []
    return ["what was enqueued:", *lines, *more]


def _arguments(payload: str | None) -> str:
    if payload is None:
        return "…"
    return ", ".join(f"{name}={value!r}" for name, value in json.loads(payload).items())
