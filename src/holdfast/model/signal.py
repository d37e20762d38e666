"""Signals, the waitpoints where they arrive, and the keys that sign a waitpoint's token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

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
    """The sender, by its own account."""
    key: str | None = None
    """A second signal with the same key to the same job is the same signal."""
    tenant: str | None = None
    """Jobs of others are as if they did not exist; None sees all."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of sending a signal."""

    job_id: str
    seq: int
    """Its number in the job's mailbox."""
    effect: Literal["stored", "resumed"]
    again: bool = False
    """It had been accepted before, under the same key; nothing was changed."""
    waits_for: tuple[str, ...] = ()
    """The names that the job waits for now, where this is none of them: the signal is kept for a later wait."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One signal in a mailbox, without its payload. `taken_by` is the step that consumed it."""

    seq: int
    name: str
    waitpoint: str | None
    source: str
    at: int
    taken_by: str | None


@dataclass(frozen=True, slots=True)
class Pending:
    """A waitpoint that takes a signal, or a name that a suspended job waits for. Instants are microseconds.

    A waitpoint's token is nobody's to list.
    """

    id: str
    """Of a name: the job's id, a comma and the name."""
    job_id: str
    task: str
    queue: str
    tenant: str
    name: str
    kid: str
    """The key of the waitpoint's token; "" for a name, which has none."""
    schema: str | None
    """JSON schema of the payload, for a form."""
    created_at: int
    expires_at: int | None
    """None where the wait has no timeout."""
    refusals: int
    refused_at: int | None
    awaited: bool
    """True if its job is suspended, perhaps on something else; false if the job has not come so far."""
    arguments: str = ""
    """The beginning of the arguments of its job, as they are stored."""


def name_id(job_id: str, name: str) -> str:
    """The id of a name that a job waits for. No job's id contains a comma."""
    return f"{job_id},{name}"


def name_of(id: str) -> tuple[str, str]:
    """The job and the name of such an id; the name is "" where it is that of a waitpoint."""
    job_id, _, name = id.partition(",")
    return job_id, name


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret. Instants are microseconds."""

    kid: str
    state: Literal["active", "retired", "revoked"]
    created_at: int
    valid_until: int | None
    """Of a retired one: until then it verifies what it signed."""
    fingerprint: str
    """The beginning of the secret's hash, to see whether two stores have the same."""
