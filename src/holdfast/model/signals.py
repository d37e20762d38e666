"""Signals, and the waitpoints where they arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from .values import Instant

MAX_SIGNALS: Final = 10_000
"""Per job, over its whole life."""
MAX_WAITPOINTS: Final = 10_000
"""Per job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A signal to send. The payload is encoded."""

    name: str
    payload: str = "null"
    source: str = ""
    """The sender, as it names itself."""
    key: str | None = None
    """A second signal with the same key to the same job is the same signal."""
    tenant: str | None = None
    """The tenant whose jobs it can reach; None is all."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of sending a signal."""

    job_id: str
    seq: int
    """Its number in the job's mailbox."""
    effect: Literal["stored", "resumed"]
    again: bool
    """It had been accepted before, under the same key; nothing was changed."""
    waits_for: tuple[str, ...]
    """The names that the job waits for, if this is not one of them: the signal is kept for a later wait."""


@dataclass(frozen=True, slots=True)
class ReceivedSignal:
    """One signal in a mailbox, without its payload. `taken_by` is the step that consumed it."""

    seq: int
    name: str
    waitpoint: str | None
    source: str
    at: Instant
    taken_by: str | None


class Waitpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A waitpoint that takes a signal, or a name that a suspended job waits for. Its token is never listed."""

    id: str
    """Of a name: the job's id, a comma and the name."""
    name: str
    job_id: str
    task: str
    queue: str
    tenant: str
    kid: str
    """The key of the waitpoint's token; "" for a name, which has none."""
    schema: Any
    """JSON schema of the payload, for a form."""
    awaited: bool
    """True if its job is suspended, perhaps on something else; False if the job has not reached it."""
    created_at: Instant
    expires_at: Instant | None
    """None if the wait has no timeout."""
    refusals: int
    refused_at: Instant | None


class Pending(Waitpoint, frozen=True, kw_only=True):
    """A waitpoint with the arguments of its job."""

    arguments: str
    """Their beginning, as they are stored."""

    @property
    def waitpoint(self) -> Waitpoint:
        """Return it without the arguments, for callers who may not see payloads."""
        return msgspec.convert(self, Waitpoint, from_attributes=True)


def name_id(job_id: str, name: str) -> str:
    """Return the id of a name that a job waits for. No job's id contains a comma."""
    return f"{job_id},{name}"


def name_of(id: str) -> tuple[str, str]:
    """Return the job and the name of such an id; the name is "" for a waitpoint's id."""
    job_id, _, name = id.partition(",")
    return job_id, name


OnTimeout = Literal["fail", "cancel", "expire", "resume", "escalate"]
"""`escalate`: it stays suspended until an operator decides."""
Distinct = Literal["waitpoints", "signals", "sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The signals that end a wait. Without names and waitpoints, only an operator or the timeout ends it."""

    names: tuple[str, ...] = ()
    """Signals sent to the job by name."""
    waitpoints: tuple[str, ...] = ()
    """Ids of waitpoints."""
    needed: int = 1
    """The number of signals; 0 is one from each name and waitpoint."""
    distinct: Distinct = "signals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A wait, as the worker passes it to the store with the job."""

    key: str
    """The step that records the answer."""
    reason: str
    """signal, jobs, operator."""
    condition: Condition = Condition()
    jobs: tuple[str, ...] = ()
    """Jobs that must have ended, in any state, for it to resume."""
    timeout: int | None = None
    """Microseconds from the suspension."""
    on_timeout: OnTimeout = "fail"
    schema: str | None = None
    """JSON schema of the payloads; a payload that does not fit is refused while the job waits."""
    delay: int = 0
    """Microseconds between the answer and the time when the job may resume."""
    called: str = ""
    """As in the step."""
    position: int | None = None
    """Of the step; None is after all others."""


class Received(msgspec.Struct, frozen=True):
    """A signal that ended a wait, alone or with others."""

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
    """A waitpoint as its job gets it. The token is made from the row each time and is not stored."""

    id: str
    job_id: str
    name: str
    token: str
    expires_at: Instant
