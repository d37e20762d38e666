"""Outcomes that a handler raises when its run should end neither with a result nor as a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .errors import InvalidInput
from .names import check_duration


class JobOutcome(Exception):
    """An outcome that a handler chooses; never logged as an error."""


class Retry(JobOutcome):
    """Try again: after `after` seconds, or by the task's own policy. Uses an attempt."""

    def __init__(self, message: str = "asked to be retried", *, after: float | None = None) -> None:
        self.after = None if after is None else check_duration("after", after)
        super().__init__(message)


class Fail(JobOutcome):
    """Fail permanently, whatever attempts are left."""


class Snooze(JobOutcome):
    """Run again after `after` seconds. Uses no attempt."""

    def __init__(self, after: float) -> None:
        self.after = check_duration("after", after)
        super().__init__(f"snoozed for {after} s")


class Throttle(JobOutcome):
    """An external limit refused the work; run again after `after` seconds. Uses no attempt.

    The job's whole queue pauses meanwhile, unless `cool_queue` is False: other jobs would probably be refused too.
    """

    def __init__(self, message: str = "throttled", *, after: float = 60.0, cool_queue: bool = True) -> None:
        self.cool_queue = cool_queue
        self.after = check_duration("after", after)
        super().__init__(message)


RESERVED_REASONS: Final = frozenset({"budget_exhausted", "dependencies", "operator", "order", "quota", "route"})
"""Reasons of blocked jobs that Holdfast itself unblocks, without an operator's run_now."""


def check_reason(reason: str) -> str:
    """Refuse the reasons with which Holdfast itself blocks jobs: nothing would unblock the job."""
    if reason in RESERVED_REASONS:
        raise InvalidInput(
            f"a job cannot be parked with the reason {reason!r}, which Holdfast uses itself; choose another name"
        )
    return reason


class Park(JobOutcome):
    """Block the job until a person acts, such as by renewing a credential. Uses no attempt."""

    def __init__(self, message: str = "parked", *, reason: str = "auth") -> None:
        self.reason = check_reason(reason)
        super().__init__(message)


class Cancel(JobOutcome):
    """End the job as cancelled: its work is no longer wanted. It is not retried."""

    def __init__(self, reason: str = "cancelled") -> None:
        self.reason = reason
        super().__init__(reason)


class Rejected(JobOutcome):
    """Events of a delivered batch that the receiver refused, each with the reason: they are given up.

    A destination's function returns or raises it, where a receiver answers for each event. They are named by
    `event.id`, or by `event.job`, which is unique: tenants may have the same ids.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        super().__init__(f"{len(self.reasons)} events were rejected")


class DeliveryFailed(JobOutcome):
    """The server answered with this status. The outcome is decided from it, the headers and the body."""

    def __init__(self, status: int, headers: Mapping[str, str] | None = None, body: bytes | str = b"") -> None:
        self.status = status
        self.headers: Mapping[str, Any] = headers if headers is not None else {}
        self.body = body.encode() if isinstance(body, str) else bytes(body)
        super().__init__(f"the destination answered {status}")
