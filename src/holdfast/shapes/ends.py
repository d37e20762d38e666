"""Enqueued jobs, and the ends of jobs."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ..model.job import JobRecord, JobState
from ..rules.redaction import redact
from .jobs import error_of
from .values import Withheld, decoded

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
    """As a job stands, for a client of which nothing is known but that it has the key."""
    if not job.state.is_terminal:
        return KeyedResult(status="pending")
    if job.state is JobState.SUCCEEDED:
        return KeyedResult(status=job.state, result=decoded(job.result))
    return KeyedResult(status=job.state, error=_shown(job))


def _shown(job: JobRecord) -> ShownError:
    error = decoded(job.error)
    told = error if isinstance(error, dict) else {}
    # Redacted again: an older version may have stored it.
    text = redact(str(told.get("message", "")))[:_LONGEST_MESSAGE]
    return ShownError(type=str(told.get("type", job.state.value)), message=text)


def of_outcome(job: JobRecord, *, payload: bool = True) -> Outcome:
    """As a job stands. Without `payload` its result and the traceback of its error are withheld."""
    return Outcome(
        id=job.id,
        state=job.state,
        ended=job.state.is_terminal,
        reason=job.reason,
        result=decoded(job.result) if payload else None,
        error=error_of(job.error, payload=payload),
    )
