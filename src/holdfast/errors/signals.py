"""Refused signals, tokens and keys."""

from __future__ import annotations

from .root import Conflict, InvalidInput


class PayloadMismatch(InvalidInput):
    """A signal's payload does not fit the awaited type. Nothing was sent."""

    code = "payload_mismatch"

    def __init__(self, why: str) -> None:
        super().__init__(f"the payload does not fit: {why}")


class InvalidToken(InvalidInput):
    """The token is invalid. The message does not say why: that would help an attacker."""

    code = "invalid_token"

    def __init__(self) -> None:
        super().__init__("invalid or expired token; ask for a new one")


class JobEnded(Conflict):
    """The job has finished and takes no signals."""

    code = "job_ended"

    def __init__(self, job_id: str, state: str) -> None:
        self.job_id = job_id
        self.state = state
        super().__init__(
            f"job {job_id} has ended ({state}) and takes no signals; to let it run again: holdfast jobs retry {job_id}"
        )


class SignalConflict(Conflict):
    """A signal with that key was accepted, with another name or payload."""

    code = "signal_conflict"

    def __init__(self, job_id: str, key: str) -> None:
        self.job_id = job_id
        self.key = key
        super().__init__(f"job {job_id} has a signal with the key {key!r} and another name or payload; use a new key")


class TooManySignals(Conflict):
    """The job's mailbox takes no more signals."""

    code = "too_many_signals"
    retryable = True

    def __init__(self, job_id: str, limit: int) -> None:
        self.job_id = job_id
        self.limit = limit
        super().__init__(
            f"job {job_id} has received {limit:,} signals, which is the limit; send what is new to a new job"
        )


class KeyConflict(Conflict):
    """A signing key of that name, or another active one, exists."""

    code = "key_conflict"
