"""Classify a failure, once. The class decides whether the job is retried and whether that uses an attempt."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from .. import outcomes
from ..clock import SECOND
from ..errors import BlockingCall, NotAwaited, StepFailed, StreamFull
from ..model.outcomes import Cancelled, Failed, Outcome, Parked, Retry, Snoozed, Throttled
from .lifecycle import CRASH_CAP
from .redaction import redact
from .retry import RetryPolicy, is_aged_out, is_exhausted, policy_for

_MESSAGE_LIMIT: Final = 2_048
_REASON_LIMIT: Final = 200
_TRACEBACK_LIMIT: Final = 12 * 1024
# Redacted before it is cut, which could separate a secret from its name. The rest of a huge text is not read.
_READ: Final = 64 * 1024


SHORTEST: Final = 1 * SECOND
"""The least delay of a snooze and a throttle. Neither uses an attempt: without a pause they would loop endlessly."""


def at_least(delay: int) -> int:
    """Return the delay of a snooze or a throttle, in microseconds, at least the minimum."""
    return max(delay, SHORTEST)


class Tried(Protocol):
    """The facts about a job on which a decision after its failed run depends."""

    @property
    def attempt(self) -> int: ...

    @property
    def max_attempts(self) -> int: ...

    @property
    def crashes(self) -> int: ...

    @property
    def created_at(self) -> int: ...


class Retried(Tried, Protocol):
    """Those facts, and the job's own retry policy."""

    @property
    def retry(self) -> str | None: ...


class FailureClass(StrEnum):
    """The kinds of failure. An unknown error is transient: retried, within its attempts and age."""

    TRANSIENT = "transient"
    RATE_LIMITED = "rate_limited"
    AUTH_BLOCKED = "auth_blocked"
    PERMANENT = "permanent"
    TIMEOUT = "timeout"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure with the facts that the decision about it needs."""

    kind: FailureClass
    error: str
    after: int | None = None
    """A hint from the handler, in microseconds."""
    reason: str = ""
    cools: bool = True
    """True if the queue of a throttled run should pause."""


def classify(error: BaseException, no_retry_on: Sequence[type[BaseException]] = ()) -> Failure | Snoozed | Cancelled:
    """Classify an exception that left a handler. A failed step counts as the error that made it fail."""
    while isinstance(error, StepFailed) and error.__cause__ is not None:
        error = error.__cause__
    text = error_text(error)
    match error:
        case outcomes.Snooze():
            return Snoozed(at_least(error.after))
        case outcomes.Cancel():
            return Cancelled(redact(_clean(error.reason))[:_REASON_LIMIT])
        case outcomes.Throttle():
            return Failure(FailureClass.RATE_LIMITED, text, at_least(error.after), cools=error.cool_queue)
        case outcomes.Park():
            return Failure(FailureClass.AUTH_BLOCKED, text, reason=_clean(error.reason))
        case outcomes.Retry():
            return Failure(FailureClass.TRANSIENT, text, error.after)
        case outcomes.Fail():
            return Failure(FailureClass.PERMANENT, text)
        case _:
            # A full stream or a mistake in the code would fail the next attempt too.
            permanent = isinstance(error, (StreamFull, BlockingCall, NotAwaited, *no_retry_on))
            return Failure(FailureClass.PERMANENT if permanent else FailureClass.TRANSIENT, text)


def outcome_of(
    error: BaseException,
    job: Retried,
    policy: RetryPolicy | None,
    no_retry_on: Sequence[type[BaseException]],
    *,
    now: int,
    u: float,
) -> Outcome:
    """Return the outcome for a job whose handler raised, by the policies of the job and of its task."""
    failure = classify(error, no_retry_on)
    if isinstance(failure, Snoozed | Cancelled):
        return failure
    return decide(failure, job, policy_for(job.retry, policy), now=now, u=u)


def decide(failure: Failure, job: Tried, policy: RetryPolicy, *, now: int, u: float) -> Outcome:
    """Return the outcome for a job whose run failed. `u` in [0, 1) is the caller's randomness."""
    match failure.kind:
        case FailureClass.RATE_LIMITED:
            delay = at_least(failure.after or 0)
            if is_aged_out(policy, job.created_at, now, delay / SECOND):
                return Failed("aged_out", failure.error)
            return Throttled(delay, failure.error, failure.cools)
        case FailureClass.AUTH_BLOCKED:
            return Parked(failure.reason, failure.error)
        case FailureClass.PERMANENT:
            return Failed("permanent", failure.error)
        case FailureClass.CRASH:
            return _after_crash(failure, job, policy, now, u)
        case FailureClass.TRANSIENT | FailureClass.TIMEOUT:
            return _try_again(failure, job, policy, now, u)


def _try_again(failure: Failure, job: Tried, policy: RetryPolicy, now: int, u: float) -> Outcome:
    timed_out = failure.kind is FailureClass.TIMEOUT
    if is_exhausted(job.attempt, job.max_attempts):
        return Failed("timeout" if timed_out else "exhausted", failure.error)
    delay = policy.delay(job.attempt, u) if failure.after is None else failure.after / SECOND
    if is_aged_out(policy, job.created_at, now, delay):
        return Failed("aged_out", failure.error)
    return Retry(round(delay * SECOND), failure.error, outcome="timeout" if timed_out else "failed")


def _after_crash(failure: Failure, job: Tried, policy: RetryPolicy, now: int, u: float) -> Outcome:
    """Decide after the job's own process died, in which nothing else ran: it counts towards the crash cap."""
    if job.crashes + 1 >= CRASH_CAP or is_exhausted(job.attempt, job.max_attempts):
        return Failed("worker_lost", failure.error, convicts=True)
    delay = policy.delay(job.attempt, u)
    if is_aged_out(policy, job.created_at, now, delay):
        return Failed("aged_out", failure.error, convicts=True)
    return Retry(round(delay * SECOND), failure.error, outcome="crashed", convicts=True)


def error_text(error: BaseException) -> str:
    """Return an exception as JSON: its type, message and traceback, each within its limit."""
    frames = "".join(traceback.format_exception(error))
    return error_json(type(error).__name__, _message(error), frames if error.__traceback__ else None)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:
        return f"<its text could not be made: {type(broken).__name__}>"


def error_json(type_name: str, message: str, frames: str | None = None) -> str:
    """Return an error as it is stored, without secrets, each part within its limit."""
    record = {"type": type_name, "message": redact(_clean(message)[:_READ])[:_MESSAGE_LIMIT]}
    if frames:
        # The end of a traceback names the line that failed.
        record["traceback"] = redact(_clean(frames)[-_READ:])[-_TRACEBACK_LIMIT:]
    return json.dumps(record, ensure_ascii=False)


def _clean(text: str) -> str:
    # Not every database can store lone surrogates and NUL.
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "�")
