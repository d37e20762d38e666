"""Filters and results of queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .jobs import JobRecord

LATER: Final = ("delayed", "retrying", "throttled")
"""Labels of ready jobs whose time has not come, by what they wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """A filter for a list of jobs, newest first. `before` is the `next` of the last page; by default its last id."""

    state: str | None = None
    states: tuple[str, ...] | None = None
    """One of these; instead of `state`."""
    label: str | None = None
    """delayed, retrying or throttled: ready jobs whose time has not come, by what they wait for."""
    queue: str | None = None
    task: str | None = None
    tenant: str | None = None
    reason: str | None = None
    id: str | None = None
    """The beginning of its id."""
    flow: str | None = None
    worker: str | None = None
    """The id of the worker that runs it."""
    affinity: str | None = None
    """The affinity that it asks for, such as a model."""
    tag: str | None = None
    text: str | None = None
    """A part of its arguments or its error, as they are stored."""
    created_by: str | None = None
    """The creator, such as `token:shop`."""
    priority: int | None = None
    min_attempts: int | None = None
    created_after: int | None = None
    """Instants are microseconds; "after" includes its instant, "before" does not."""
    created_before: int | None = None
    finished_after: int | None = None
    finished_before: int | None = None
    older_than: int | None = None
    """Ended at least this many microseconds ago."""
    order: Literal["created", "ended"] = "created"
    """The newest first; `ended` lists ended jobs alone, those that ended last first."""
    before: str | None = None
    limit: int = 50

    def place(self, job: JobRecord) -> str:
        """Return the `before` with which the list continues after a job of it."""
        return job.id if self.order == "created" else f"{job.finished_at}:{job.id}"


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, newest first. `next` is where the list continues; a page may be short and not the last."""

    jobs: tuple[JobRecord, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Count:
    """The number of jobs of a queue in a state. A ready job whose time has not come counts as "delayed"."""

    queue: str
    state: str
    jobs: int
    estimated: bool = False
    """True if the count is an estimate: large numbers of finished jobs are only counted now and then."""
