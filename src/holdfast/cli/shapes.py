"""Jobs, attempts and workers as JSON for programs. The names here are a promise."""

from __future__ import annotations

import json
from typing import Any

from ..clock import SECOND
from ..model.budget import QUOTA
from ..model.job import Attempt, JobRecord, JobState
from ..model.worker import Worker
from .output import instant


def job_brief(job: JobRecord) -> dict[str, Any]:
    """A job in a list: without its arguments and its result, which may be large."""
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "tenant": job.tenant,
        "state": str(job.state),
        "reason": job.reason,
        "priority": job.priority,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts or None,
        "created_at": instant(job.created_at),
        "not_before": instant(job.not_before),
        "started_at": instant(job.started_at),
        "finished_at": instant(job.finished_at),
        "error": error_line(last_error(job)),
    }


def job_whole(job: JobRecord, attempts: list[Attempt]) -> dict[str, Any]:
    """Everything about a job."""
    return job_brief(job) | {
        "arguments": decoded(job.payload),
        "result": decoded(job.result),
        "error": decoded(last_error(job)),
        "tags": decoded(job.tags) or [],
        "flow": job.flow,
        "member": job.member,
        "generation": job.generation,
        "epoch": job.epoch,
        "owner": job.owner,
        "claimed_at": instant(job.claimed_at),
        "crashes": job.crashes,
        "suspect": bool(job.suspect),
        "deadline": instant(job.deadline),
        "timeout": None if job.timeout is None else job.timeout / SECOND,
        "retry": decoded(job.retry),
        "cancel_requested_at": instant(job.cancel_at),
        "cancel_reason": job.cancel_reason,
        "dedupe_key": job.dedupe_key,
        "dedupe_scope": job.dedupe_scope,
        "dedupe_until": job.dedupe_until,
        "trace": job.trace,
        "history": [attempt_data(attempt) for attempt in attempts],
    }


def attempt_data(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "generation": attempt.generation,
        "epoch": attempt.epoch,
        "outcome": attempt.outcome,
        "worker": attempt.worker,
        "started_at": instant(attempt.started_at),
        "ended_at": instant(attempt.ended_at),
        "error": decoded(attempt.error),
    }


def worker_data(worker: Worker) -> dict[str, Any]:
    return {
        "id": worker.id,
        "name": worker.name,
        "host": worker.host,
        "pid": worker.pid,
        "state": worker_state(worker),
        "queues": list(worker.queues),
        "tasks": list(worker.tasks),
        "concurrency": worker.concurrency,
        "capabilities": list(worker.capabilities),
        "resident": list(worker.resident),
        "versions": dict(worker.versions),
        "version": worker.version,
        "started_at": instant(worker.started_at),
        "beat_at": instant(worker.beat_at),
        "lease": worker.lease / SECOND,
        "lease_until": instant(worker.lease_until),
    }


def worker_state(worker: Worker) -> str:
    """A worker whose lease has run out is "lost", whatever it last said of itself."""
    return "lost" if worker.is_expired else worker.state


def decoded(text: str | None) -> Any:
    """Stored JSON as a value; what is not JSON stays text, so that a corrupt row can still be looked at."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return str(text)


def last_error(job: JobRecord) -> str | None:
    """What went wrong last. A success has no error, nor has a wait for a window; those before are in the history."""
    return None if job.state is JobState.SUCCEEDED or (job.state, job.reason) == (JobState.READY, QUOTA) else job.error


def error_line(text: str | None) -> str | None:
    """An error in one line."""
    error = decoded(text)
    if not isinstance(error, dict):
        return None if error is None else str(error)
    return f"{error.get('type', 'error')}: {error.get('message', '')}".removesuffix(": ")
