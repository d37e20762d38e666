"""Routes: a queue, and what a job requires of a worker beyond serving that queue.

A route's number is derived from its content, so that a job can be written without a look-up and a worker knows the
plain route of each of its queues. Only routes that require more have a row, by which workers find them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Route:
    """One distinct combination of queue, required capabilities, affinity and version pin."""

    queue: str
    requires: frozenset[str] = field(default=frozenset())
    affinity: str = ""
    version: str = ""

    @cached_property
    def number(self) -> int:
        """Return 63 bits of a hash of the content: a billion routes collide with a chance below one in ten."""
        text = "\x1f".join((self.queue, self.requires_text, self.affinity, self.version))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1

    @cached_property
    def requires_text(self) -> str:
        return json.dumps(sorted(self.requires), separators=(",", ":"))

    @cached_property
    def is_plain(self) -> bool:
        """True if it requires nothing beyond the queue."""
        return not (self.requires or self.affinity or self.version)

    def requiring(self, capability: str) -> Route:
        return Route(self.queue, self.requires | {capability}, self.affinity, self.version)

    def without(self, capability: str) -> Route:
        return Route(self.queue, self.requires - {capability}, self.affinity, self.version)

    def on(self, queue: str) -> Route:
        """Return the route with the same requirements in another queue."""
        return Route(queue, self.requires, self.affinity, self.version)

    def is_served_by(self, queues: frozenset[str], capabilities: frozenset[str]) -> bool:
        return self.queue in queues and self.requires <= capabilities


@dataclass(frozen=True, slots=True)
class Grant:
    """A job reserved for one worker, until the next claim or until it expires. Instants are microseconds."""

    job_id: str
    worker: str
    granted_at: int
    expires_at: int
    is_expired: bool = False
    """After this, the next worker that polls opens the job to all."""


@dataclass(frozen=True, slots=True)
class Stranded:
    """Jobs that could start, and that no live worker can run, or a queue with a total that none serves."""

    queue: str
    job: str | None
    """The first of them; None if the queue has none."""
    code: str
    text: str
