"""Actions of operators on running work, and their results."""

from __future__ import annotations

from dataclasses import dataclass
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
