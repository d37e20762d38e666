"""Actions of operators on running work, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

Why: TypeAlias = Literal["no_active_lease", "different_owner", "epoch_moved"]


@dataclass(frozen=True, slots=True)
class Held:
    """In whose hands a job must be for an action to be meant; None asks for nothing."""

    owner: str | None = None
    epoch: int | None = None

    @property
    def by_anybody(self) -> bool:
        return self.owner is None and self.epoch is None

    def misfit(self, owner: str | None, epoch: int) -> Why | None:
        """Return the reason for which a job with this owner and epoch is not meant, if there is one."""
        if self.owner not in (None, owner):
            return "different_owner"
        return "epoch_moved" if self.epoch not in (None, epoch) else None


@dataclass(frozen=True, slots=True)
class Revoked:
    """The lease is taken away: what its worker still does no longer counts. The attempt is given back."""

    state: str
    """The job's new state: `ready`, or `cancelled` where that was asked for before."""
    epoch: int


@dataclass(frozen=True, slots=True)
class AlreadySatisfied:
    """There was nothing to revoke, and nothing was changed."""

    reason: Why


@dataclass(frozen=True, slots=True)
class Buried:
    """A worker that was declared dead, and what became of its jobs."""

    worker: str
    rescued: int
    again: bool = False
    """Somebody did so before."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A job in the hands of a worker. Instants are microseconds."""

    job: str
    task: str
    queue: str
    tenant: str
    owner: str
    epoch: int
    claimed_at: int | None
    lease_until: int | None
    """None where the store does not know the worker any more."""
    worker_state: str | None
    now: int
    """When this was read, by the store's clock."""

    @property
    def overdue(self) -> int:
        """For how many microseconds it has been over."""
        return 0 if self.lease_until is None else max(0, self.now - self.lease_until)


class Action(StrEnum):
    """The actions on jobs, one or many."""

    RETRY = "retry"
    CANCEL = "cancel"
    DELETE = "delete"
    RUN_NOW = "run_now"
    PRIORITY = "priority"
    MOVE = "move"
    HOLD = "hold"
    RELEASE = "release"


class ActionResult(StrEnum):
    """The result of an action for one job."""

    RETRIED = "retried"
    NOT_REQUEUED = "not_requeued"
    """A live twin holds its dedupe key."""
    CANCELLED = "cancelled"
    REQUESTED = "cancel_requested"
    """It is running: its worker was told."""
    FINISHED = "finished"
    """It had already ended."""
    DELETED = "deleted"
    DUE = "due"
    ALREADY_DUE = "already_due"
    CHANGED = "changed"
    MOVED = "moved"
    HELD = "held"
    RELEASED = "released"
    ALREADY = "already"
    """It was so, and nothing was changed."""
    NOT_ALLOWED = "not_allowed"
    """Its state does not allow it."""
    MISSING = "missing"
    """There is no such job, or no longer."""


@dataclass(frozen=True, slots=True)
class Order:
    """An action with what it needs."""

    action: Action
    priority: int | None = None
    queue: str | None = None
    force: bool = False
    only_states: tuple[str, ...] | None = None
    """The states by which they were chosen: a job that has left them since is not meant any more."""
    only_queue: str | None = None
    only_tenant: str | None = None
    """The tenant that they must have: a job of another counts as missing."""


@dataclass(frozen=True, slots=True)
class BulkReport:
    """The number of jobs by result. With `dry_run` nothing was changed, and these are the results it would have had."""

    action: Action
    chosen: int
    fates: Mapping[ActionResult, int] = field(default_factory=dict)
    dry_run: bool = False
    by_id: Mapping[str, ActionResult] = field(default_factory=dict)
    """Each job's own, where the jobs were named."""

    @property
    def changed(self) -> int:
        """Jobs that the action changed, or would change."""
        return sum(n for fate, n in self.fates.items() if fate not in UNCHANGED)


UNCHANGED = frozenset(
    {
        ActionResult.NOT_REQUEUED,
        ActionResult.FINISHED,
        ActionResult.ALREADY_DUE,
        ActionResult.ALREADY,
        ActionResult.NOT_ALLOWED,
        ActionResult.MISSING,
    }
)
