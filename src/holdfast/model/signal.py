"""Signals, the waitpoints where they arrive, and the keys that sign a waitpoint's token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

SIGNAL_LIMIT: Final = 64 * 1024
"""Bytes of a payload."""
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
    """Who sends it, as far as the sender's word is taken for it."""
    key: str | None = None
    """A second signal with the same key to the same job is the same signal."""
    tenant: str | None = None
    """Jobs of others are as if they did not exist; None sees all."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a signal."""

    job_id: str
    seq: int
    """Its number in the job's mailbox."""
    effect: Literal["stored", "resumed"]
    again: bool = False
    """It had been accepted before, under the same key; nothing was changed."""


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
    """A waitpoint that takes a signal. Its token is nobody's to list. Instants are microseconds."""

    id: str
    job_id: str
    task: str
    queue: str
    tenant: str
    name: str
    kid: str
    schema: str | None
    """JSON schema of the payload, for a form."""
    created_at: int
    expires_at: int
    refusals: int
    refused_at: int | None
    awaited: bool
    """Whether its job is suspended; it may not have come so far, or wait for something else."""
    arguments: str = ""
    """How the arguments of its job begin, as they are stored."""


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
