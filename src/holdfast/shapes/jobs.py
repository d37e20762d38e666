"""Jobs and their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from ..model.artifacts import Artifact
from ..model.jobs import Attempt as AttemptRecord
from ..model.jobs import Demands, JobRecord, JobState
from ..model.values import Withheld, decoded, instant_of, seconds_of
from ..rules.redaction import redact
from ..rules.webhooks import origin_of, own_tags

_NONE: Final = Demands()


class _Common(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    task: str
    queue: str
    tenant: str
    state: JobState
    reason: str | None
    priority: int
    attempts: int
    total_attempts: int
    """With those from before a manual retry, which resets `attempts`."""
    max_attempts: int | None
    created_at: datetime
    created_by: str | None
    """The creator; null for jobs that were enqueued before it was recorded."""
    title: str | None
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
    requires: list[str]
    affinity: str | None
    version: str | None
    concurrency_key: str | None
    concurrency: int | None
    rate: str | None
    breaker: str | None
    quota: str | None
    reserve: dict[str, dict[str, float]]
    webhook: str | None
    """With the scope `payload` the whole URL, otherwise its origin."""
    updated_at: datetime
    """The latest of the times it was enqueued, claimed, retried, cancelled or ended."""
    history: list[Attempt]


class JobWithArtifacts(Job, frozen=True, kw_only=True):
    """Everything about a job, and what it has stored, without the bytes."""

    artifacts: list[Artifact]


def of_job(
    job: JobRecord, attempts: Sequence[AttemptRecord] = (), demands: Demands = _NONE, *, payload: bool = True
) -> Job:
    """A job whole. Without `payload` its arguments, its result and the tracebacks of its errors are withheld."""
    return Job(
        **_common(job),
        error=error_of(job.error, payload=payload),
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
        requires=list(demands.requires),
        affinity=demands.affinity,
        version=demands.version,
        concurrency_key=demands.concurrency_key,
        concurrency=demands.concurrency,
        rate=demands.rate,
        breaker=demands.breaker,
        quota=demands.quota,
        reserve={budget: {name: float(n) for name, n in what.items()} for budget, what in demands.reserve.items()},
        webhook=demands.webhook if payload or demands.webhook is None else origin_of(demands.webhook),
        updated_at=_updated_at(job, attempts),
        history=[of_attempt(attempt, payload=payload) for attempt in attempts],
    )


def with_artifacts(job: Job, found: Sequence[Artifact], *, payload: bool = True) -> JobWithArtifacts:
    """A job and its artifacts. Without `payload` their hashes are withheld."""
    artifacts = [one if payload else msgspec.structs.replace(one, sha256=None) for one in found]
    return JobWithArtifacts(**msgspec.structs.asdict(job), artifacts=artifacts)


def _updated_at(job: JobRecord, attempts: Sequence[AttemptRecord]) -> datetime:
    known = (job.created_at, job.claimed_at, job.cancel_at, job.finished_at, *(one.ended_at for one in attempts[-1:]))
    latest = instant_of(max(at for at in known if at is not None))
    assert latest is not None
    return latest


def of_job_brief(job: JobRecord) -> JobBrief:
    """A job for a list."""
    return JobBrief(**_common(job), error=error_line(job.error))


def of_attempt(attempt: AttemptRecord, *, payload: bool = True) -> Attempt:
    """A run. Without `payload` the traceback of its error is withheld."""
    return Attempt(
        attempt=attempt.attempt,
        generation=attempt.generation,
        epoch=attempt.epoch,
        outcome=attempt.outcome,
        worker=attempt.worker,
        started_at=instant_of(attempt.started_at),
        ended_at=instant_of(attempt.ended_at),
        error=error_of(attempt.error, payload=payload),
    )


def error_of(text: str | None, *, payload: bool) -> Any:
    """A stored error. Its traceback, which has lines of the program, is for those who may see payloads."""
    error = decoded(text)
    if payload or not isinstance(error, dict):
        return error
    return {name: value for name, value in error.items() if name != "traceback"}


def error_line(text: str | None) -> str | None:
    """A stored error in one line."""
    return line_of(decoded(text))


def line_of(error: Any) -> str | None:
    """An error in one line."""
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
        "total_attempts": job.total_attempts,
        "max_attempts": job.max_attempts or None,
        "created_at": instant_of(job.created_at),
        "created_by": job.created_by,
        "title": job.title,
        "not_before": instant_of(job.not_before),
        "started_at": instant_of(job.started_at),
        "finished_at": instant_of(job.finished_at),
    }


_LONGEST_MESSAGE: Final = 500


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is stored. Where `created` is false, it is an earlier one that held the id or the dedupe key.

    With `result_key` a client without a token asks for the result; null for an earlier job, which may be another's.
    """

    id: str
    created: bool
    result_key: str | None = None


class AcceptedMany(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that are stored, in the order in which they were given. `created` says how many of them are new.

    `result_keys`, where they were asked for, are in the same order; null for an earlier job.
    """

    ids: list[str]
    created: int
    result_keys: list[str | None] | None = None


class KeyedResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a job, for callers with its key: `pending` until it has ended, then its result or its error."""

    status: str
    result: Any = None
    error: ShownError | None = None


class ShownError(msgspec.Struct, frozen=True, kw_only=True):
    """An error, without secrets and tracebacks."""

    type: str
    message: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job, or its state if it has not ended."""

    id: str
    state: JobState
    ended: bool
    reason: str | None
    result: Withheld
    error: Any


def of_keyed_result(job: JobRecord) -> KeyedResult:
    """Return the state of a job for a client that has only its key."""
    if not job.state.is_terminal:
        return KeyedResult(status="pending")
    if job.state is JobState.SUCCEEDED:
        return KeyedResult(status=job.state, result=decoded(job.result))
    return KeyedResult(status=job.state, error=_shown(job))


def _shown(job: JobRecord) -> ShownError:
    error = decoded(job.error)
    stored = error if isinstance(error, dict) else {}
    # Redacted again: an older version may have stored it.
    text = redact(str(stored.get("message", "")))[:_LONGEST_MESSAGE]
    return ShownError(type=str(stored.get("type", job.state.value)), message=text)


def of_outcome(job: JobRecord, *, payload: bool = True) -> Outcome:
    """Return the outcome so far. Without `payload` its result and the traceback of its error are withheld."""
    return Outcome(
        id=job.id,
        state=job.state,
        ended=job.state.is_terminal,
        reason=job.reason,
        result=decoded(job.result) if payload else None,
        error=error_of(job.error, payload=payload),
    )
