"""Answers to what people ask and do: values, because each is expected."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .job import JobRecord


class CancelResult(StrEnum):
    """What became of a cancel."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    """It is running: its worker was told, and a success within the grace stands."""
    FINISHED = "finished"
    """It had already ended; nothing was changed."""
    MOVED = "moved"
    """It is not in the hands that were named, owner or epoch; nothing was changed."""


class DeleteResult(StrEnum):
    """What became of a delete."""

    DELETED = "deleted"
    REQUESTED = "cancel_requested"
    """It is running: a cancel was requested instead."""
    NEEDED = "needed"
    """It has ended, but its flow, or a job that waits for it, has not; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list, newest first. `before` is the id that the last page ended with."""

    state: str | None = None
    states: tuple[str, ...] | None = None
    """One of these; instead of `state`."""
    queue: str | None = None
    task: str | None = None
    tenant: str | None = None
    reason: str | None = None
    id: str | None = None
    """How its id begins."""
    flow: str | None = None
    worker: str | None = None
    """The id of the worker that runs it."""
    tag: str | None = None
    text: str | None = None
    """What stands in its arguments or its error, as it is stored."""
    priority: int | None = None
    min_attempts: int | None = None
    created_after: int | None = None
    """Instants are microseconds; "after" includes its instant, "before" does not."""
    created_before: int | None = None
    finished_after: int | None = None
    finished_before: int | None = None
    older_than: int | None = None
    """Ended at least so many microseconds ago."""
    before: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, newest first. `next` is where to look on, though a short page has no more in it than it shows."""

    jobs: tuple[JobRecord, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Count:
    """How many jobs of a queue are in a state. A ready job whose time has not come counts as "delayed"."""

    queue: str
    label: str
    jobs: int
    estimated: bool = False
    """Finished jobs in great numbers are counted now and then only."""
