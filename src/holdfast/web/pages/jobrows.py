"""Jobs in lists, one row each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from ...model.jobs import JobRecord, JobState
from ...rules.bulk import HELD
from ...shapes.jobs import error_line
from ...shapes.values import decoded
from ..search.meaning import tags_of, took

_MOST_SAID: Final = 300
_MOST_GIVEN: Final = 4_096
_PARKED: Final = 2
_WAITS: Final = {
    "dependencies": "waiting for other jobs of its flow",
    HELD: "held by an operator",
    "budget_exhausted": "waiting for its budget",
    "quota": "waiting for its quota",
    "route": "no worker can run it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A row about a job. Times and durations are in microseconds."""

    id: str
    task: str
    queue: str
    tenant: str
    state: str
    label: str
    tries: str
    priority: int
    tags: tuple[str, ...]
    given: str
    """The beginning of its arguments; empty where they are withheld."""
    said: str
    """The reason for its state in a few words: its error, or what it is waiting for."""
    is_error: bool
    created_at: int
    at: int
    """The time that matters in its state: due, started or finished."""
    runs_since: int | None
    took: int | None


def row_of(job: JobRecord, now: int, *, payload: bool) -> JobRow:
    """Return the row of a job. Without `payload` its arguments are withheld."""
    error = error_line(job.error)
    return JobRow(
        id=job.id,
        task=job.task,
        queue=job.queue,
        tenant=job.tenant,
        state=str(job.state),
        label=label_of(job, now),
        tries=f"{job.attempts}/{job.max_attempts or '∞'}",
        priority=job.priority,
        tags=tuple(tags_of(job)),
        given=_given(job.payload) if payload else "",
        said=_one_line(error or _reason(job)),
        is_error=error is not None and job.state is JobState.FAILED,
        created_at=job.created_at,
        at=_instant(job, now),
        runs_since=job.claimed_at if job.state is JobState.RUNNING else None,
        took=None if job.state is JobState.RUNNING else took(job, now),
    )


def label_of(job: JobRecord, now: int) -> str:
    """Return the label of its state."""
    if job.state is JobState.READY:
        if job.not_before > now:
            return "Retrying" if job.reason == "retry" else "Delayed"
        return "Parked" if job.due == _PARKED else "Ready"
    if job.state is JobState.BLOCKED and job.reason == HELD:
        return "Held"
    if job.state is JobState.RUNNING and job.cancel_at is not None:
        return "Stopping"
    return str(job.state).capitalize()


def _instant(job: JobRecord, now: int) -> int:
    if job.finished_at is not None:
        return job.finished_at
    if job.state is JobState.RUNNING:
        return job.claimed_at or job.created_at
    return job.not_before if job.not_before > now else job.created_at


def _reason(job: JobRecord) -> str:
    if job.state is JobState.BLOCKED:
        return _WAITS.get(job.reason or "", job.reason or "")
    if job.state in (JobState.SUSPENDED, JobState.CANCELLED, JobState.EXPIRED, JobState.SKIPPED):
        return job.reason or ""
    return ""


def _given(payload: str) -> str:
    """Summarise arguments: `user: 8231, locale: "de"`."""
    found = decoded(payload[:_MOST_GIVEN]) if len(payload) <= _MOST_GIVEN else payload[:_MOST_SAID]
    if not isinstance(found, dict):
        return _one_line(str(found))
    return _one_line(", ".join(f"{name}: {_word(value)}" for name, value in found.items()))


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MOST_SAID]
