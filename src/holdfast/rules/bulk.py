"""Decides what an operator's action does to a job in its state. The statements repeat these rules as their guards."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.actions import Action, Fate
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


def fate(job: Look, action: Action, *, force: bool = False, priority: int | None = None) -> Fate:
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
            return Fate.MOVED if job.state in (_S.READY, _S.BLOCKED) else Fate.NOT_ALLOWED
        case Action.HOLD:
            return _held(job)
        case Action.RELEASE:
            return _released(job)


def _prioritised(job: Look, wanted: int | None) -> Fate:
    if job.state not in (_S.READY, _S.BLOCKED, _S.SUSPENDED):
        return Fate.NOT_ALLOWED
    return Fate.ALREADY if job.priority == wanted else Fate.CHANGED


def _held(job: Look) -> Fate:
    if job.state is _S.BLOCKED and job.reason == HELD:
        return Fate.ALREADY
    return Fate.HELD if job.state is _S.READY else Fate.NOT_ALLOWED


def _released(job: Look) -> Fate:
    if job.state is _S.BLOCKED and job.reason == HELD:
        return Fate.RELEASED
    return Fate.NOT_ALLOWED if job.state is _S.BLOCKED or job.state.is_terminal else Fate.ALREADY


def _retried(job: Look) -> Fate:
    if not job.state.is_terminal or job.generation >= MAX_GENERATION or job.cancelling:
        return Fate.NOT_ALLOWED
    return Fate.NOT_REQUEUED if job.twin else Fate.RETRIED


def _cancelled(job: Look, *, force: bool) -> Fate:
    if job.state.is_terminal:
        return Fate.FINISHED
    return Fate.REQUESTED if job.state is _S.RUNNING and not force else Fate.CANCELLED


def _deleted(job: Look) -> Fate:
    if job.state is _S.RUNNING:
        return Fate.REQUESTED
    if job.needed and job.state.is_terminal:
        return Fate.NOT_ALLOWED
    return Fate.CANCELLED if job.state is _S.SUSPENDED or job.needed else Fate.DELETED


def _run_now(job: Look) -> Fate:
    if job.state is _S.READY:
        return Fate.DUE if job.due == 0 else Fate.ALREADY_DUE
    mended = job.state is _S.BLOCKED and job.reason not in _NOT_MENDED_BY_HAND
    return Fate.DUE if mended else Fate.NOT_ALLOWED
