"""A permission for one worker, by its name, to run a job before all others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grant:
    """It is used once, by the next claim, or it expires. Instants are microseconds."""

    job_id: str
    worker: str
    granted_at: int
    expires_at: int
    is_expired: bool = False
    """The job is open to everybody as soon as a worker looks."""


@dataclass(frozen=True, slots=True)
class Stranded:
    """Jobs that could start, and that no live worker can run, or a queue with a total that none serves."""

    route: int
    queue: str
    job_id: str
    """The first of them; "" where the queue has none."""
    code: str
    text: str
