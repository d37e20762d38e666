"""The page of one job: status, history, arguments, result and actions."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from ...clock import SYSTEM_CLOCK
from ...model.jobs import JobRecord, JobState
from ...model.values import is_reference
from ...rules.explain import Explanation
from ...shapes.jobs import error_of
from ...shapes.values import decoded
from ..search.meaning import fingerprint_of, tags_of, took
from ..wire.call import Call
from ..wire.operation import Group
from .addresses import error_path, job_path
from .frame import Page
from .jobfacts import acts_of, outcome_of, timeline_of, tone_of
from .jobrows import label_of
from .jobtabs import TABS

group = Group("Job", kind="page")

Tab: TypeAlias = Literal["overview", "attempts", "steps", "stream", "artifacts", "signals", "again"]

_MOST_AUDIT: Final = 30


class JobQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tab; `after` is the position in a stream."""

    tab: Tab = "overview"
    after: str = ""


@group.get("/jobs/{job_id}", needs="read")
async def show(call: Call, job_id: str, query: JobQuery) -> Page:
    """Show a job."""
    return Page("job.html", await shows(call, job_id, query))


async def shows(call: Call, job_id: str, query: JobQuery, **more: Any) -> dict[str, Any]:
    """Return the context of the page: the job, and the data of its tab."""
    jobs = call.client.jobs
    job, attempts, progress = await asyncio.gather(
        jobs.aget(job_id, whole=False), jobs.aattempts(job_id), call.client.streams.aprogress(job_id)
    )
    now, path, may = SYSTEM_CLOCK.now(), job_path(job.id), call.may("payload")
    tab = await TABS[query.tab](call, job, query.after) if query.tab in TABS else await _overview(call, job)
    if "audit" in tab:
        tab["timeline"] = timeline_of(job, attempts, tab.pop("audit"), now)
    return {
        "page": "jobs",
        "job": job,
        "path": path,
        "tab": query.tab,
        "tabs": _tabs(call, job, path, len(attempts)),
        "label": label_of(job, now),
        "acts": acts_of(job, now),
        "ended": job.state.is_terminal,
        "progress": progress,
        "took": took(job, now),
        "waited": _waited(job),
        "tags": tags_of(job),
        "attempts": [
            (one, outcome_of(one), tone_of(one), error_of(one.error, payload=may)) for one in reversed(attempts)
        ],
        "error": error_of(job.error, payload=may) if job.state is not JobState.RUNNING else None,
        "error_path": _kind(job),
        **tab,
        **more,
    }


async def _overview(call: Call, job: JobRecord) -> dict[str, Any]:
    payload = call.may("payload")
    why, audit, demands = await asyncio.gather(
        _why(call, job),
        call.client.audit.alist(target_kind="job", target=job.id, limit=_MOST_AUDIT),
        call.client.jobs.ademands(job.id),
    )
    return {
        "why": [(reason.code, _sentence(reason.text)) for reason in why.reasons] if why else [],
        "audit": audit,
        "arguments": decoded(job.payload) if payload else None,
        "result": decoded(job.result) if payload else None,
        "large": _large(job),
        "retry": decoded(job.retry),
        "demands": demands,
    }


def _large(job: JobRecord) -> dict[str, str | None]:
    """Return the URLs of values that are too large for the page."""
    below = f"/api/v1/jobs/{quote(job.id, safe='')}"
    return {
        "arguments": below if is_reference(job.payload) else None,
        "result": f"{below}/artifacts/completion/content" if is_reference(job.result) else None,
    }


async def _why(call: Call, job: JobRecord) -> Explanation | None:
    """Explain the job's state where there is something to explain."""
    return None if job.state.is_terminal else await call.client.jobs.aexplain(job.id)


def _tabs(call: Call, job: JobRecord, path: str, attempts: int) -> list[tuple[Any, ...]]:
    labels = [("overview", "Overview"), ("attempts", "Attempts"), ("steps", "Steps"), ("stream", "Stream"),
              ("artifacts", "Artifacts"), ("signals", "Signals")]  # fmt: skip
    if call.may("enqueue"):
        labels.append(("again", "Edit and run again"))
    return [
        (
            key,
            label,
            path if key == "overview" else f"{path}?tab={key}",
            attempts or None if key == "attempts" else None,
        )
        for key, label in labels
    ]


def _waited(job: JobRecord) -> int | None:
    """Return the time from first due to first started."""
    return None if job.started_at is None else max(0, job.started_at - max(job.created_at, _first_due(job)))


def _first_due(job: JobRecord) -> int:
    # A retry moves the due time past the first start; then only the enqueue time is known.
    due = job.not_before
    return due if job.started_at is not None and due <= job.started_at else job.created_at


def _kind(job: JobRecord) -> str | None:
    found = fingerprint_of(job) if job.error is not None else None
    return None if found is None else error_path(found)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
