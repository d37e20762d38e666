"""Waits of suspended jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

OnTimeout = Literal["fail", "cancel", "expire", "resume", "escalate"]
"""`escalate`: it stays suspended for an operator to look at."""
Distinct = Literal["waitpoints", "signals", "sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The signals that end the wait. Without names and waitpoints none does: only an operator, or the timeout."""

    names: tuple[str, ...] = ()
    """Signals sent to the job by name."""
    waitpoints: tuple[str, ...] = ()
    """Ids of waitpoints."""
    needed: int = 1
    """The number of signals; 0 is one from each name and waitpoint."""
    distinct: Distinct = "signals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A wait, as the worker hands it to the store with the job."""

    key: str
    """The step that the answer becomes."""
    reason: str
    """signal, jobs, operator."""
    condition: Condition = Condition()
    jobs: tuple[str, ...] = ()
    """Jobs that must have ended, however they ended, for it to go on."""
    timeout: int | None = None
    """Microseconds from the suspension."""
    on_timeout: OnTimeout = "fail"
    schema: str | None = None
    """JSON schema of the payloads; senders of what does not fit are refused while the job waits."""
    delay: int = 0
    """Microseconds between the answer and the moment when the job may go on."""
    called: str = ""
    """As in the step."""
    position: int | None = None
    """Of the step; None is after all others."""


class Received(msgspec.Struct, frozen=True):
    """A signal that ended a wait, or was one of those that did."""

    name: str
    payload: msgspec.Raw
    waitpoint: str | None = None
    source: str = ""
    seq: int = 0
    at: int = 0


class Answer(msgspec.Struct, frozen=True):
    """The end of a wait; encoded it is the value of the wait's step."""

    how: Literal["signals", "jobs", "operator", "timeout"]
    signals: tuple[Received, ...] = ()
    """In the order of acceptance."""
    payload: msgspec.Raw = msgspec.Raw(b"null")
    """The value that the operator gave."""

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> Answer:
        return msgspec.json.decode(text, type=cls)


@dataclass(frozen=True, slots=True)
class Opened:
    """A waitpoint as its job gets it. The token is made from the row each time; it is stored nowhere."""

    id: str
    name: str
    token: str
    expires_at: int
    job_id: str
