"""Actions of operators on jobs, and their results; leases and workers that were declared dead."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredDead:
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
    """The time of the read, by the store's clock."""

    @property
    def overdue(self) -> int:
        """Microseconds since the lease expired."""
        return 0 if self.lease_until is None else max(0, self.now - self.lease_until)


class Action(StrEnum):
    """The actions on jobs, one or many: one verb each, for every surface. `rules/actions.py` describes them."""

    RETRY = "retry"
    CANCEL = "cancel"
    DELETE = "delete"
    RUN_NOW = "run_now"
    RESCHEDULE = "reschedule"
    SET_PRIORITY = "set_priority"
    MOVE = "move"
    HOLD = "hold"
    RELEASE = "release"
    REVOKE = "revoke"
    GRANT = "grant"
    WITHDRAW = "withdraw"


class ActionResult(StrEnum):
    """The result of an action for one job."""

    RETRIED = "retried"
    KEY_TAKEN = "key_taken"
    """Another live job holds its dedupe key; nothing was changed."""
    CANCELLED = "cancelled"
    REQUESTED = "cancel_requested"
    """It is running: its worker was asked to stop it, and a success within the grace period counts."""
    FINISHED = "finished"
    """It had already ended; nothing was changed."""
    DELETED = "deleted"
    NEEDED = "needed"
    """It has ended, but its flow, or a job that waits for it, has not; nothing was changed."""
    DUE = "due"
    ALREADY_DUE = "already_due"
    RESCHEDULED = "rescheduled"
    CHANGED = "changed"
    MOVED = "moved"
    HELD = "held"
    RELEASED = "released"
    REVOKED = "revoked"
    NO_ACTIVE_LEASE = "no_active_lease"
    """No worker runs it; nothing was changed."""
    DIFFERENT_OWNER = "different_owner"
    """A different worker owns it; nothing was changed."""
    EPOCH_MOVED = "epoch_moved"
    """It has a different epoch; nothing was changed."""
    GRANTED = "granted"
    WITHDRAWN = "withdrawn"
    NOT_GRANTED = "not_granted"
    ALREADY = "already"
    """It was already in that state; nothing was changed."""
    NOT_ALLOWED = "not_allowed"
    """Its state does not allow it."""
    MISSING = "missing"
    """There is no such job, or it was deleted."""

    @property
    def changes(self) -> bool:
        """True if the action changed something, or would."""
        return self not in _UNCHANGED


_UNCHANGED: Final = frozenset(
    {
        ActionResult.KEY_TAKEN,
        ActionResult.FINISHED,
        ActionResult.NEEDED,
        ActionResult.ALREADY_DUE,
        ActionResult.NO_ACTIVE_LEASE,
        ActionResult.DIFFERENT_OWNER,
        ActionResult.EPOCH_MOVED,
        ActionResult.NOT_GRANTED,
        ActionResult.ALREADY,
        ActionResult.NOT_ALLOWED,
        ActionResult.MISSING,
    }
)


@dataclass(frozen=True, slots=True)
class Order:
    """An action with its parameters, checked, and the jobs that it may affect."""

    action: Action
    priority: int | None = None
    queue: str | None = None
    force: bool = False
    fresh: bool = False
    owner: str | None = None
    """The worker that must run the job; None is any."""
    epoch: int | None = None
    """The epoch that the job must have; None is any."""
    worker: str | None = None
    expires: int | None = None
    """Microseconds."""
    at: int | None = None
    """An instant, in microseconds."""
    delay: int | None = None
    """Microseconds."""
    only_states: tuple[str, ...] | None = None
    """The states by which the jobs were chosen: a job that has left them since is not affected."""
    only_queue: str | None = None
    only_tenant: str | None = None
    """The tenant that the jobs must have: a job of another counts as missing."""

    def misfit(self, owner: str | None, epoch: int) -> ActionResult | None:
        """Return why the action does not apply to a job with this owner and epoch; None if it does."""
        if self.owner not in (None, owner):
            return ActionResult.DIFFERENT_OWNER
        return ActionResult.EPOCH_MOVED if self.epoch not in (None, epoch) else None


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an action on one job."""

    id: str
    outcome: ActionResult


class BulkReport(msgspec.Struct, frozen=True, kw_only=True):
    """The number of jobs by result. With `dry_run` nothing was changed, and these are the expected results."""

    action: Action
    dry_run: bool
    chosen: int
    changed: int
    """Jobs that the action changed, or would change."""
    counts: dict[ActionResult, int]
    results: tuple[JobResult, ...]
    """The result of each job, if the jobs were named."""
