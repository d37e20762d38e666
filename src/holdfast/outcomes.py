"""What a handler raises to say how its run ended, where returning a result or failing is not the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .errors import InvalidInput
from .names import check_duration


class JobOutcome(Exception):
    """A run's outcome on purpose; never logged as an error."""


class Retry(JobOutcome):
    """Try again: after `after` seconds, or by the task's own policy. Counts an attempt."""

    def __init__(self, message: str = "asked to be retried", *, after: float | None = None) -> None:
        self.after = None if after is None else check_duration("after", after)
        super().__init__(message)


class Fail(JobOutcome):
    """Fail for good, whatever attempts are left."""


class Snooze(JobOutcome):
    """Run again after `after` seconds. Costs no attempt."""

    def __init__(self, after: float) -> None:
        self.after = check_duration("after", after)
        super().__init__(f"snoozed for {after} s")


class Throttle(JobOutcome):
    """A limit elsewhere refused the work; again after `after` seconds. Costs no attempt.

    The job's whole queue rests meanwhile, unless `cool_queue` is False: what refused this job would refuse its like.
    """

    def __init__(self, message: str = "throttled", *, after: float = 60.0, cool_queue: bool = True) -> None:
        self.cool_queue = cool_queue
        self.after = check_duration("after", after)
        super().__init__(message)


RESERVED_REASONS: Final = frozenset({"budget_exhausted", "dependencies", "operator", "order", "quota", "route"})
"""Reasons of blocked jobs that something else than an operator's run_now lets go."""


def check_reason(reason: str) -> str:
    """Refuse the reasons by which Holdfast itself blocks jobs: nothing would let the job go."""
    if reason in RESERVED_REASONS:
        raise InvalidInput(
            f"a job cannot be parked with the reason {reason!r}, which Holdfast uses itself; choose another name"
        )
    return reason


class Park(JobOutcome):
    """The work cannot be done until somebody acts, such as renewing a credential. Costs no attempt."""

    def __init__(self, message: str = "parked", *, reason: str = "auth") -> None:
        self.reason = check_reason(reason)
        super().__init__(message)


class Cancel(JobOutcome):
    """End the job as cancelled: what it was for is no longer wanted. It is not tried again."""

    def __init__(self, reason: str = "cancelled") -> None:
        self.reason = reason
        super().__init__(reason)


class Rejected(JobOutcome):
    """Of a batch that was delivered, these events were not taken, each with the reason: they are given up.

    A destination's function returns or raises it, where a receiver answers for each event. They are named by
    `event.id`, or by `event.job`, which no two have: tenants may have the same ids.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        super().__init__(f"{len(self.reasons)} events were rejected")


class DeliveryFailed(JobOutcome):
    """The server answered with this status. What that means is decided from it, the headers and the body."""

    def __init__(self, status: int, headers: Mapping[str, str] | None = None, body: bytes | str = b"") -> None:
        self.status = status
        self.headers: Mapping[str, Any] = headers if headers is not None else {}
        self.body = body.encode() if isinstance(body, str) else bytes(body)
        super().__init__(f"the destination answered {status}")
