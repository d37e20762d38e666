"""Turns a remote worker's report on the end of a run into the stored outcome, by the rules for local workers."""

from __future__ import annotations

from typing import Any

from ..codec import VALUE_LIMIT, encode
from ..errors import InvalidInput
from ..model import lease
from ..model.outcome import Cancelled, Done, Expired, Outcome, Released, Snoozed
from ..names import check_duration, check_name
from ..outcomes import check_reason
from .failure import Failure, FailureClass, Tried, at_least, decide, error_json
from .retry import RetryPolicy

RELEASED = "released"


def stated(ending: lease.AnyEnding, limit: int = VALUE_LIMIT) -> Outcome | Failure:
    """Check a report. Attempts and policy of the job decide on a failure later. `limit` bounds the result."""
    match ending:
        case lease.Done(result):
            return Done(encode(result, what="the result", limit=limit))
        case lease.Retry(error, delay):
            after = None if delay is None else check_duration("delay", delay)
            return Failure(FailureClass.TRANSIENT, _text(error), after)
        case lease.TimedOut(error):
            return Failure(FailureClass.TIMEOUT, _text(error))
        case lease.Fail(error):
            return Failure(FailureClass.PERMANENT, _text(error))
        case lease.Throttle(retry_after, error, cool_queue):
            after = at_least(check_duration("retry_after", retry_after))
            return Failure(FailureClass.RATE_LIMITED, _text(error), after, cools=cool_queue)
        case lease.Park(error, reason):
            chosen = check_reason(check_name("the reason", reason))
            return Failure(FailureClass.AUTH_BLOCKED, _text(error), reason=chosen)
        case _:
            return _plain(ending)


def _plain(ending: lease.AnyEnding) -> Outcome:
    match ending:
        case lease.Snooze(delay):
            return Snoozed(at_least(check_duration("delay", delay)))
        case lease.Release():
            return Released(RELEASED)
        case lease.Cancel():
            return Cancelled("cancelled")
        case lease.Expire():
            return Expired()
        case _:
            raise InvalidInput(f"{type(ending).__name__} is no outcome; see holdfast.model.lease")


def decided(said: Outcome | Failure, job: Tried, policy: RetryPolicy, *, now: int, u: float) -> Outcome:
    """Return the outcome to store. `u` in [0, 1) is the caller's randomness."""
    return decide(said, job, policy, now=now, u=u) if isinstance(said, Failure) else said


def _text(error: Any) -> str:
    if not isinstance(error, lease.Problem):
        raise InvalidInput(f"the error must be a Problem, not {type(error).__name__}; say at least its message")
    return error_json(check_name("the error's type", error.type), error.message, error.traceback or None)
