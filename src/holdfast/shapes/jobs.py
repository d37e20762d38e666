"""Jobs and their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from ..model.budget import QUOTA
from ..model.job import Attempt as AttemptRecord
from ..model.job import JobRecord, JobState
from ..rules.webhooks import own_tags
from .values import Withheld, decoded, instant_of, seconds_of


class _Common(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    task: str
    queue: str
    tenant: str
    state: JobState
    reason: str | None
    priority: int
    attempts: int
    max_attempts: int | None
    created_at: datetime
    not_before: datetime
    started_at: datetime | None
    finished_at: datetime | None


class JobBrief(_Common, frozen=True, kw_only=True):
    """A job in a list: without its arguments and its result, which may be large."""

    error: str | None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A run that did not end in success."""

    attempt: int
    generation: int
    epoch: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    ended_at: datetime | None
    error: Any


class Job(_Common, frozen=True, kw_only=True):
    """Everything about a job."""

    error: Any
    arguments: Withheld
    result: Withheld
    tags: list[str]
    flow: str | None
    member: str | None
    generation: int
    epoch: int
    owner: str | None
    claimed_at: datetime | None
    crashes: int
    suspect: bool
    deadline: datetime | None
    timeout: float | None
    retry: Any
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    dedupe_key: str | None
    dedupe_scope: str | None
    dedupe_until: str | None
    trace: str | None
    history: list[Attempt]


def of_job(job: JobRecord, attempts: Sequence[AttemptRecord] = (), *, payload: bool = True) -> Job:
    """A job whole. Without `payload` its arguments and its result are withheld."""
    return Job(
        **_common(job),
        error=decoded(last_error(job)),
        arguments=decoded(job.payload) if payload else None,
        result=decoded(job.result) if payload else None,
        tags=own_tags(decoded(job.tags) or []),
        flow=job.flow,
        member=job.member,
        generation=job.generation,
        epoch=job.epoch,
        owner=job.owner,
        claimed_at=instant_of(job.claimed_at),
        crashes=job.crashes,
        suspect=bool(job.suspect),
        deadline=instant_of(job.deadline),
        timeout=seconds_of(job.timeout),
        retry=decoded(job.retry),
        cancel_requested_at=instant_of(job.cancel_at),
        cancel_reason=job.cancel_reason,
        dedupe_key=job.dedupe_key,
        dedupe_scope=job.dedupe_scope,
        dedupe_until=job.dedupe_until,
        trace=job.trace,
        history=[of_attempt(attempt) for attempt in attempts],
    )


def of_job_brief(job: JobRecord) -> JobBrief:
    """A job for a list."""
    return JobBrief(**_common(job), error=error_line(last_error(job)))


def of_attempt(attempt: AttemptRecord) -> Attempt:
    return Attempt(
        attempt=attempt.attempt,
        generation=attempt.generation,
        epoch=attempt.epoch,
        outcome=attempt.outcome,
        worker=attempt.worker,
        started_at=instant_of(attempt.started_at),
        ended_at=instant_of(attempt.ended_at),
        error=decoded(attempt.error),
    )


def last_error(job: JobRecord) -> str | None:
    """What went wrong last. A success has no error, nor has a wait for a window; those before are in the history."""
    return None if job.state is JobState.SUCCEEDED or (job.state, job.reason) == (JobState.READY, QUOTA) else job.error


def error_line(text: str | None) -> str | None:
    """An error in one line."""
    error = decoded(text)
    if not isinstance(error, dict):
        return None if error is None else str(error)
    return f"{error.get('type', 'error')}: {error.get('message', '')}".removesuffix(": ")


def _common(job: JobRecord) -> dict[str, Any]:
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "tenant": job.tenant,
        "state": job.state,
        "reason": job.reason,
        "priority": job.priority,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts or None,
        "created_at": instant_of(job.created_at),
        "not_before": instant_of(job.not_before),
        "started_at": instant_of(job.started_at),
        "finished_at": instant_of(job.finished_at),
    }
