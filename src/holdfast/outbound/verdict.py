"""The outcome that a handler raises for an unsuccessful answer."""

from __future__ import annotations

import json

from ..clock import SECOND
from ..outcomes import Fail, JobOutcome, Park, Retry, Throttle
from ..rules.answers import classify
from ..rules.failure import FailureClass
from .client import Answer


def verdict(answer: Answer, *, now: int) -> JobOutcome | None:
    """Return None for success, else the outcome to raise. `now` is in microseconds."""
    failure = classify(answer.status, answer.headers, answer.body, now=now)
    if failure is None:
        return None
    message = str(json.loads(failure.error)["message"])
    after = None if failure.after is None else failure.after / SECOND
    match failure.kind:
        case FailureClass.RATE_LIMITED:
            return Throttle(message, after=after or 60.0, cool_queue=failure.cools)
        case FailureClass.AUTH_BLOCKED:
            return Park(message, reason=failure.reason)
        case FailureClass.PERMANENT:
            return Fail(message)
        case _:
            return Retry(message, after=after)
