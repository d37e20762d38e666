"""Texts for actions on many jobs: labels, results and undo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...model.actions import UNCHANGED, Action, ActionResult, BulkReport


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of an action: the verb, the past tense, and an explanation."""

    ask: str
    done: str
    about: str
    danger: bool = False


@dataclass(frozen=True, slots=True)
class Undo:
    """The action that undoes another."""

    action: Action
    label: str
    to_queue: str = ""


ACTIONS: Final = {
    Action.RETRY: Words("Retry", "Retried", "The jobs run again from their first attempt; their history is kept."),
    Action.CANCEL: Words("Cancel", "Cancelled", "Waiting jobs end now; running jobs are asked to stop."),
    Action.DELETE: Words(
        "Delete", "Deleted", "The jobs and their history are removed. This cannot be undone.", danger=True
    ),
    Action.RUN_NOW: Words("Run now", "Started", "Delayed and retrying jobs start as soon as a worker is free."),
    Action.PRIORITY: Words("Change the priority of", "Changed the priority of", "Higher runs first."),
    Action.MOVE: Words("Move", "Moved", "The jobs wait in the target queue for its workers."),
    Action.HOLD: Words("Hold", "Held", "The jobs do not start until they are released."),
    Action.RELEASE: Words("Release", "Released", "Held jobs can start again when they are due."),
}

FATES: Final = {
    ActionResult.RETRIED: "run again",
    ActionResult.NOT_REQUEUED: "not retried: an unfinished job has the same dedupe key",
    ActionResult.CANCELLED: "are cancelled",
    ActionResult.REQUESTED: "are running and are asked to stop",
    ActionResult.FINISHED: "have already finished",
    ActionResult.DELETED: "are deleted",
    ActionResult.DUE: "start as soon as a worker is free",
    ActionResult.ALREADY_DUE: "are already due",
    ActionResult.CHANGED: "get the new priority",
    ActionResult.MOVED: "move to the target queue",
    ActionResult.HELD: "are held",
    ActionResult.RELEASED: "are released",
    ActionResult.ALREADY: "are already in that state",
    ActionResult.NOT_ALLOWED: "are unchanged: their state does not allow it",
    ActionResult.MISSING: "no longer exist",
}

_UNDOES: Final = {
    Action.HOLD: Undo(Action.RELEASE, "Undo: release them"),
    Action.RELEASE: Undo(Action.HOLD, "Undo: hold them again"),
    Action.CANCEL: Undo(Action.RETRY, "Undo: run them again"),
}


def lines_of(report: BulkReport) -> list[tuple[int, str, bool]]:
    """Return the number of jobs per outcome with its text, and whether it is a change; changes first."""
    lines = [(n, FATES[fate], fate not in UNCHANGED) for fate, n in report.fates.items() if n]
    return sorted(lines, key=lambda line: (not line[2], -line[0]))


def undo_of(action: Action, queue: str | None) -> Undo | None:
    """Return the action that undoes this one; None if there is none. `queue` is where all jobs were before."""
    if action is Action.MOVE and queue is not None:
        return Undo(Action.MOVE, f"Undo: move them back to {queue}", queue)
    return _UNDOES.get(action)
