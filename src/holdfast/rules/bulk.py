"""Decide what an operator's action does to a job in its state. SQL statements repeat these rules as their guards."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.actions import Action, ActionResult
from ..model.jobs import JobState
from .lifecycle import MAX_GENERATION

HELD = "operator"
"""The reason of a job that an operator holds."""
_NOT_MENDED_BY_HAND = frozenset({"dependencies", "budget_exhausted", "quota", "route"})
_S = JobState


@dataclass(frozen=True, slots=True)
class Look:
    """The facts about a job on which an action depends."""

    id: str
    state: JobState
    queue: str
    route: int
    due: int | None
    reason: str | None
    generation: int
    held: str | None
    """The dedupe key that it would hold again."""
    twin: bool
    """True if another job holds that key."""
    linked: int = 0
    """Not 0 if other jobs or a flow depend on its end."""
    needed: bool = False
    """True if its flow has not ended, or a job waits for it."""
    cancelling: bool = False
    """True if its flow is being cancelled."""
    tenant: str = ""
    priority: int = 0


def fate(job: Look, action: Action, *, force: bool = False, priority: int | None = None) -> ActionResult:
    """Return the result that the action would have."""
    match action:
        case Action.RETRY:
            return _retried(job)
        case Action.CANCEL:
            return _cancelled(job, force=force)
        case Action.DELETE:
            return _deleted(job)
        case Action.RUN_NOW:
            return _run_now(job)
        case Action.PRIORITY:
            return _prioritised(job, priority)
        case Action.MOVE:
            return ActionResult.MOVED if job.state in (_S.READY, _S.BLOCKED) else ActionResult.NOT_ALLOWED
        case Action.HOLD:
            return _held(job)
        case Action.RELEASE:
            return _released(job)


def _prioritised(job: Look, wanted: int | None) -> ActionResult:
    if job.state not in (_S.READY, _S.BLOCKED, _S.SUSPENDED):
        return ActionResult.NOT_ALLOWED
    return ActionResult.ALREADY if job.priority == wanted else ActionResult.CHANGED


def _held(job: Look) -> ActionResult:
    if job.state is _S.BLOCKED and job.reason == HELD:
        return ActionResult.ALREADY
    return ActionResult.HELD if job.state is _S.READY else ActionResult.NOT_ALLOWED


def _released(job: Look) -> ActionResult:
    if job.state is _S.BLOCKED and job.reason == HELD:
        return ActionResult.RELEASED
    return ActionResult.NOT_ALLOWED if job.state is _S.BLOCKED or job.state.is_terminal else ActionResult.ALREADY


def _retried(job: Look) -> ActionResult:
    if not job.state.is_terminal or job.generation >= MAX_GENERATION or job.cancelling:
        return ActionResult.NOT_ALLOWED
    return ActionResult.NOT_REQUEUED if job.twin else ActionResult.RETRIED


def _cancelled(job: Look, *, force: bool) -> ActionResult:
    if job.state.is_terminal:
        return ActionResult.FINISHED
    return ActionResult.REQUESTED if job.state is _S.RUNNING and not force else ActionResult.CANCELLED


def _deleted(job: Look) -> ActionResult:
    if job.state is _S.RUNNING:
        return ActionResult.REQUESTED
    if job.needed and job.state.is_terminal:
        return ActionResult.NOT_ALLOWED
    return ActionResult.CANCELLED if job.state is _S.SUSPENDED or job.needed else ActionResult.DELETED


def _run_now(job: Look) -> ActionResult:
    if job.state is _S.READY:
        return ActionResult.DUE if job.due == 0 else ActionResult.ALREADY_DUE
    mended = job.state is _S.BLOCKED and job.reason not in _NOT_MENDED_BY_HAND
    return ActionResult.DUE if mended else ActionResult.NOT_ALLOWED
