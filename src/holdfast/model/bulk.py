"""Actions of operators on many jobs at once, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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


class Fate(StrEnum):
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
    fates: Mapping[Fate, int] = field(default_factory=dict)
    dry_run: bool = False
    by_id: Mapping[str, Fate] = field(default_factory=dict)
    """Each job's own, where the jobs were named."""

    @property
    def changed(self) -> int:
        """Jobs that the action changed, or would change."""
        return sum(n for fate, n in self.fates.items() if fate not in UNCHANGED)


UNCHANGED = frozenset(
    {Fate.NOT_REQUEUED, Fate.FINISHED, Fate.ALREADY_DUE, Fate.ALREADY, Fate.NOT_ALLOWED, Fate.MISSING}
)
