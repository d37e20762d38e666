"""Actions of operators on running work, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

Why: TypeAlias = Literal["no_active_lease", "different_owner", "epoch_moved"]


@dataclass(frozen=True, slots=True)
class Held:
    """The owner and epoch that a job must have for an action to apply; None is any."""

    owner: str | None = None
    epoch: int | None = None

    @property
    def by_anybody(self) -> bool:
        return self.owner is None and self.epoch is None

    def misfit(self, owner: str | None, epoch: int) -> Why | None:
        """Return the reason why the action does not apply to a job with this owner and epoch, if there is one."""
        if self.owner not in (None, owner):
            return "different_owner"
        return "epoch_moved" if self.epoch not in (None, epoch) else None


@dataclass(frozen=True, slots=True)
class Revoked:
    """The lease was revoked: what its worker still does no longer counts. No attempt is used."""

    state: str
    """The job's new state: `ready`, or `cancelled` if that was requested before."""
    epoch: int


@dataclass(frozen=True, slots=True)
class AlreadySatisfied:
    """There was nothing to revoke, and nothing was changed."""

    reason: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Buried:
    """A worker that was declared dead, and the rescue of its jobs."""

    worker: str
    rescued: int
    again: bool
    """True if it had been declared dead before."""
    changed: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """A job that a worker owns. Instants are microseconds."""

    job: str
    task: str
    queue: str
    tenant: str
    owner: str
    epoch: int
    claimed_at: int | None
    lease_until: int | None
    """None if the worker is no longer registered."""
    worker_state: str | None
    now: int
    """When this was read, by the store's clock."""

    @property
    def overdue(self) -> int:
        """Microseconds since the lease expired."""
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
    """Another live job holds its dedupe key."""
    CANCELLED = "cancelled"
    REQUESTED = "cancel_requested"
    """It is running: its worker was asked to stop it."""
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
    """It was so already; nothing was changed."""
    NOT_ALLOWED = "not_allowed"
    """Its state does not allow it."""
    MISSING = "missing"
    """There is no such job, or it was deleted."""


@dataclass(frozen=True, slots=True)
class Order:
    """An action with its parameters."""

    action: Action
    priority: int | None = None
    queue: str | None = None
    force: bool = False
    only_states: tuple[str, ...] | None = None
    """The states by which the jobs were chosen: a job that has left them since is not affected."""
    only_queue: str | None = None
    only_tenant: str | None = None
    """The tenant that the jobs must have: a job of another counts as missing."""


@dataclass(frozen=True, slots=True)
class BulkReport:
    """The number of jobs by result. With `dry_run` nothing was changed, and these are the expected results."""

    action: Action
    chosen: int
    fates: Mapping[ActionResult, int] = field(default_factory=dict)
    dry_run: bool = False
    by_id: Mapping[str, ActionResult] = field(default_factory=dict)
    """The result of each job, if the jobs were named."""

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
