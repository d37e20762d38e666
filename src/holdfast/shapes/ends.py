"""What was enqueued, and how jobs end."""

from __future__ import annotations

from typing import Any

import msgspec

from ..model.job import JobRecord, JobState
from .jobs import last_error
from .values import Withheld, decoded


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is stored. Where `created` is false, it is an earlier one that held the id or the dedupe key."""

    id: str
    created: bool


class AcceptedMany(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that are stored, in the order in which they were given. `created` says how many of them are new."""

    ids: list[str]
    created: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a job has ended, or that it has not yet."""

    id: str
    state: JobState
    ended: bool
    reason: str | None
    result: Withheld
    error: Any


def of_outcome(job: JobRecord, *, payload: bool = True) -> Outcome:
    """As a job stands. Without `payload` its result is withheld."""
    return Outcome(
        id=job.id,
        state=job.state,
        ended=job.state.is_terminal,
        reason=job.reason,
        result=decoded(job.result) if payload else None,
        error=decoded(last_error(job)),
    )
