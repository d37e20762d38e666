"""A job as it is requested, as it is stored, and as a worker receives it.

Types made once per job are msgspec Structs: a frozen dataclass of 20 fields takes 4 µs to make, a Struct 0.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from .budgets import QUOTA
from .routing import Route
from .values import SURELY_INLINE

OnDuplicate = Literal["existing", "replace", "raise"]


class JobState(StrEnum):
    """The nine stored states. Everything else is derived from the columns beside them."""

    READY = "ready"
    """May be claimed once `not_before` has come."""
    BLOCKED = "blocked"
    """Waits for something other than time."""
    RUNNING = "running"
    """Owned by exactly one worker."""
    SUSPENDED = "suspended"
    """Waits for a signal, an operator or a timeout; has no owner."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """The dead letter: it will not be retried."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """Its deadline passed."""
    SKIPPED = "skipped"
    """A dependency made it impossible."""

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


TERMINAL: Final = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED, JobState.SKIPPED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedupe:
    """One job at a time may hold a key in its scope: how long it holds it, and how a duplicate is treated."""

    key: str
    scope: str
    until: Literal["start", "failure", "finish", "window"] = "finish"
    window: int = 0
    """Microseconds, with `until="window"`: the key is held at least this long, whatever the job's state."""
    on_duplicate: OnDuplicate = "existing"


class Fair(msgspec.Struct, frozen=True):
    """A share of a queue: jobs of different keys alternate, by weight."""

    key: str
    weight: float = 1.0


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A job to enqueue, complete and checked. Durations and instants are microseconds."""

    id: str
    task: str
    route: Route
    payload: str
    explicit_id: bool = False
    tenant: str = ""
    priority: int = 0
    delay: int = 0
    at: int | None = None
    max_attempts: int = 5
    retry: str | None = None
    timeout: int | None = None
    deadline: int | None = None
    deadline_at: int | None = None
    dedupe: Dedupe | None = None
    tags: str | None = None
    trace: str | None = None
    limits: str | None = None
    fair: Fair | None = None
    webhook: tuple[str, str] | None = None
    """The endpoint that its tags name, and the URL that is notified: both are stored with the job."""
    hooks: str | None = None
    """The jobs that are enqueued when it ends: a JSON list of `Hook`."""
    created_by: str = "engine"
    """The creator: `token:NAME`, `schedule:NAME`, `job:ID`, an operator, a name that the program gives, or `code`."""
    title: str | None = None
    """A title for people."""

    @property
    def is_keyless(self) -> bool:
        """True if its insert can neither find a duplicate nor wait for another transaction."""
        return (
            self.dedupe is None
            and not self.explicit_id
            and self.route.is_plain
            and not (self.fair or self.webhook or self.hooks)
            # A larger one may have to be stored in a blob, by a separate statement.
            and len(self.payload) <= SURELY_INLINE
        )


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is enqueued when another ends, in the same commit."""

    on: Literal["success", "failure", "end"]
    """`failure` is a job that failed or expired, `end` is any end."""
    spec: JobSpec
    """The job, without its arguments."""
    takes: str
    """The argument that gets the id of the job that ended."""
    wants: tuple[str, ...] = ()
    """The names among state, reason, result and error that it gets as arguments."""


class Enqueued(msgspec.Struct, frozen=True):
    """The result of an enqueue: a new job, or the one that already held its id or key."""

    id: str
    created: bool


class Claimed(msgspec.Struct, frozen=True):
    """A job that a worker has claimed, in the order of the columns that a claim returns."""

    id: str
    task: str
    queue: str
    route: int
    tenant: str
    payload: str
    attempt: int
    max_attempts: int
    retry: str | None
    timeout: int | None
    time_left: int | None
    """Microseconds until the job's deadline."""
    generation: int
    epoch: int
    suspect: int
    crashes: int
    tags: str | None
    trace: str | None
    created_at: int
    priority: int
    rank: int
    limits: str | None = None
    flow: str | None = None
    inputs: str | None = None
    """The arguments that are results of other jobs, encoded."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job's whole row, in the order of its columns. Instants are microseconds."""

    id: str
    task: str
    queue: str
    route: int
    tenant: str
    state: JobState
    due: int | None
    priority: int
    rank: int
    not_before: int
    reason: str | None
    lane: str | None
    payload: str
    tags: str | None
    trace: str | None
    attempts: int
    max_attempts: int
    retry: str | None
    timeout: int | None
    deadline: int | None
    generation: int
    epoch: int
    owner: str | None
    claim: str | None
    claimed_at: int | None
    suspect: int
    alone: int
    crashes: int
    cancel_at: int | None
    cancel_reason: str | None
    dedupe_scope: str | None
    dedupe_key: str | None
    dedupe_until: str | None
    created_at: int
    started_at: int | None
    finished_at: int | None
    finished_epoch: int | None
    error: str | None
    result: str | None
    limits: str | None = None
    holds: str | None = None
    flow: str | None = None
    member: str | None = None
    linked: int = 0
    inputs: str | None = None
    created_by: str | None = None
    """None if it was enqueued before this was recorded."""
    past_attempts: int = 0
    """The attempts from before a retry reset them to zero."""
    title: str | None = None

    @property
    def total_attempts(self) -> int:
        """All its attempts, over all its generations."""
        return self.past_attempts + self.attempts

    @classmethod
    def from_row(cls, row: tuple[Any, ...]) -> JobRecord:
        fields = list(row)
        fields[5] = JobState(row[5])
        job = cls(*fields)
        return job if job.error is None else replace(job, error=last_error(job.state, job.reason, job.error))


def last_error(state: str, reason: str | None, error: str | None) -> str | None:
    """Return the last error. A success and a wait for a quota have none; earlier errors are in the history."""
    return None if state == JobState.SUCCEEDED or (state, reason) == (JobState.READY, QUOTA) else error


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """The demands of a job on workers and limits, beyond those of its task and queue."""

    requires: tuple[str, ...] = ()
    affinity: str | None = None
    version: str | None = None
    concurrency_key: str | None = None
    concurrency: int | None = None
    rate: str | None = None
    breaker: str | None = None
    quota: str | None = None
    reserve: Mapping[str, Mapping[str, Decimal]] = field(default_factory=dict)
    """The amounts that it reserves in budgets before it starts, by budget and dimension."""
    webhook: str | None = None
    """The URL that is notified of this job alone."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run that did not end in success."""

    epoch: int
    generation: int
    attempt: int
    outcome: str
    worker: str | None
    started_at: int | None
    ended_at: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a job, for its waiters."""

    id: str
    state: JobState
    result: str | None
    error: str | None
    reason: str | None
