"""Decide on outbox entries after a delivery, and on pauses of a destination."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from ..clock import SECOND
from ..errors import Undecodable
from ..model.jobs import Claimed, JobRecord
from ..model.outbox import ORDER, PREFIX, OutboxEvent
from ..model.outcomes import Failed, Outcome, Throttled
from .failure import Failure, FailureClass, decide
from .retry import RetryPolicy, is_aged_out
from .routing import Reason

RETRY: Final = RetryPolicy(initial=60.0, factor=2.0, cap=1_920.0, jitter="additive", spread=0.25)
"""The default policy of a destination: 60 s · 2^n, at most 32 min, and up to a quarter more."""
UNPARKED: Final = 256
"""The most parked entries that one success releases."""
SPREAD: Final = 5 * SECOND
"""The time over which those become due."""
STRIKES: Final = 3
"""Failures in a row of the whole destination after which it pauses."""
_SHORTEST_LOOK: Final = 10 * SECOND
_LONGEST_LOOK: Final = 900 * SECOND


class _Body(msgspec.Struct):
    data: object
    kind: str = ""
    key: str | None = None
    id: str | None = None


_decode: Final = msgspec.json.Decoder(_Body).decode


def read_event(job: Claimed) -> OutboxEvent:
    """Return the event of an entry; Undecodable if it holds none."""
    try:
        body = _decode(job.payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Undecodable(f"entry {job.id} is not an event: {error}") from error
    return OutboxEvent(
        body.id or job.id, body.kind, body.data, body.key, job.attempt, job.tenant, job.created_at, job.id
    )


def outcome_after(failure: Failure, job: Claimed, policy: RetryPolicy, *, now: int, u: float) -> Outcome:
    """Return the outcome for an entry that was not delivered. `u` in [0, 1) is the caller's randomness.

    A wait that the destination asked for is extended a little, by `u`, so that entries do not all come back at once.
    An entry older than the policy's age is given up, unless it is parked.
    """
    if failure.after is not None:
        failure = replace(failure, after=round(failure.after * (1 + policy.spread * u)))
    outcome = decide(failure, job, policy, now=now, u=u)
    if isinstance(outcome, Throttled) and is_aged_out(policy, job.created_at, now, outcome.delay / SECOND):
        return Failed("aged_out", failure.error)
    return outcome


def is_strike(failure: Failure) -> bool:
    """Return whether a failure counts against the destination. A rate limit does not: it says when to come back."""
    return failure.kind not in (FailureClass.PERMANENT, FailureClass.RATE_LIMITED)


def why_blocked(job: JobRecord) -> Reason:
    """Return the reason for which an entry is neither due nor being sent."""
    if job.reason == ORDER:
        return Reason(ORDER, "an earlier event of its key has neither been delivered nor abandoned")
    error = msgspec.json.decode(job.error).get("message", "") if job.error else ""
    then = f"it resumes when a delivery succeeds, or after: holdfast outbox retry {job.queue.removeprefix(PREFIX)}"
    return Reason("parked", f"it is parked ({job.reason}{f': {error}' if error else ''}); {then}")


def next_look(job: Claimed, now: int) -> int:
    """Return the time until an event's gate is checked again, in microseconds: the older the event, the longer."""
    return min(max((now - job.created_at) // 4, _SHORTEST_LOOK), _LONGEST_LOOK)


R = TypeVar("R")


def isolate(
    rows: Sequence[R], refusal: Failure, known: list[tuple[R, Failure | None]] | None = None
) -> Generator[R, Failure | None, list[tuple[R, Failure | None]]]:
    """Yield the rows to send one at a time, receive the result of each, and return the result of every row.

    `refusal` is how the whole batch was refused. `known` collects the final results, for a caller that stops early.
    """
    if len(rows) == 1:
        return [(rows[0], refusal)]
    results = [] if known is None else known
    held: list[tuple[R, Failure]] = []
    proven = False
    for n, row in enumerate(rows):
        failure = yield row
        if failure is None:
            proven = True
            results.append((row, None))
        elif failure.kind is not FailureClass.PERMANENT:
            # It concerns the whole destination: no more rows are sent, and it applies to every remaining row.
            return [*results, *((held_row, failure) for held_row, _ in held), *((left, failure) for left in rows[n:])]
        elif proven:
            results.append((row, failure))
        else:
            held.append((row, failure))
        if proven and held:
            results.extend(held)
            held = []
    return [*results, *((row, _as_transient(failure)) for row, failure in held)]


def _as_transient(failure: Failure) -> Failure:
    return Failure(FailureClass.TRANSIENT, failure.error)
