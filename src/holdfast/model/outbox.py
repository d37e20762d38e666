"""Outboxes: events as their destination receives them, and the counts of an outbox.

An entry is a job: delivered is succeeded, abandoned is failed, parked is blocked, sending is running.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

PREFIX: Final = "outbox."
ORDER: Final = "order"
"""The reason of an entry that waits for an earlier one of its key."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_canonical: Final = msgspec.json.Encoder(order="sorted").encode


def queue_of(name: str) -> str:
    """Return the queue and the task of a destination's entries."""
    return PREFIX + name


def content_hash(kind: str, data: object) -> str:
    """Return a hash of the content: SHA-256 of {"data": …, "kind": …}, keys sorted, no spaces."""
    return hashlib.sha256(_canonical({"data": data, "kind": kind})).hexdigest()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event to put, if the events of one call differ in more than their data."""

    data: Any
    kind: str = ""
    key: str | None = None
    id: str | None = None


class OutboxEvent(msgspec.Struct, frozen=True):
    """An event as a destination's function receives it. The same one always has the same `id`."""

    id: str
    kind: str
    data: Any
    key: str | None
    attempt: int
    tenant: str
    created: int
    """Microseconds since 1970; `created_at` is the same as a datetime."""
    job: str

    @property
    def created_at(self) -> datetime:
        """The time at which it was put."""
        return _EPOCH + timedelta(microseconds=self.created)

    @property
    def hash(self) -> str:
        """The hash of its kind and data, for consumers that recognise events by their content."""
        return content_hash(self.kind, self.data)


@dataclass(frozen=True, slots=True)
class OutboxCounts:
    """The number of entries of an outbox in each state."""

    name: str
    pending: int = 0
    """Due now or later."""
    sending: int = 0
    parked: int = 0
    """Parked until an operator acts, or a delivery succeeds."""
    delivered: int = 0
    abandoned: int = 0
    other: int = 0
    """Cancelled, expired or skipped."""


@dataclass(frozen=True, slots=True)
class OutboxAges:
    """The times at which the oldest entry of an outbox in each state was put. Instants are microseconds."""

    pending: int | None = None
    parked: int | None = None
    abandoned: int | None = None
    delivered: int | None = None
    """The time of the last delivery."""


@dataclass(frozen=True, slots=True)
class DrainReport:
    """Abandoned entries by kind; with `applied` they were made pending again."""

    outbox: str
    kinds: Mapping[str, int]
    applied: bool
    left: int
    """The number of those that stay abandoned, because they were retried too often."""

    @property
    def total(self) -> int:
        return sum(self.kinds.values())
