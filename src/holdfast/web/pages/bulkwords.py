"""What actions on many jobs are called, what becomes of the jobs in plain words, and what undoes an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...model.bulk import UNCHANGED, Action, BulkReport, Fate


@dataclass(frozen=True, slots=True)
class Words:
    """An action: what is asked, what the button says, what was done, and what it means."""

    ask: str
    done: str
    about: str
    danger: bool = False


@dataclass(frozen=True, slots=True)
class Undo:
    """The action that takes another back."""

    action: Action
    label: str
    to_queue: str = ""


ACTIONS: Final = {
    Action.RETRY: Words("Retry", "Retried", "They run again from their first attempt; their history stays."),
    Action.CANCEL: Words("Cancel", "Cancelled", "Those that wait end now; those that run are asked to stop."),
    Action.DELETE: Words(
        "Delete", "Deleted", "They and their history are removed. This cannot be undone.", danger=True
    ),
    Action.RUN_NOW: Words("Run now", "Made due", "Delayed and retrying jobs start as soon as a worker is free."),
    Action.PRIORITY: Words("Change the priority of", "Changed the priority of", "Higher goes first."),
    Action.MOVE: Words("Move", "Moved", "They wait in the other queue, for the workers that serve it."),
    Action.HOLD: Words("Hold", "Held", "They do not start until somebody releases them."),
    Action.RELEASE: Words("Release", "Released", "Held jobs go on when they are due."),
}

FATES: Final = {
    Fate.RETRIED: "run again",
    Fate.NOT_REQUEUED: "stay: a live job holds their key",
    Fate.CANCELLED: "are cancelled",
    Fate.REQUESTED: "are running, and are asked to stop",
    Fate.FINISHED: "have ended already",
    Fate.DELETED: "are removed for good",
    Fate.DUE: "start as soon as a worker is free",
    Fate.ALREADY_DUE: "are due already",
    Fate.CHANGED: "get the new priority",
    Fate.MOVED: "move to the other queue",
    Fate.HELD: "are held",
    Fate.RELEASED: "go on",
    Fate.ALREADY: "are so already",
    Fate.NOT_ALLOWED: "stay as they are: their state does not allow it",
    Fate.MISSING: "are not there, or no longer",
}

_UNDOES: Final = {
    Action.HOLD: Undo(Action.RELEASE, "Undo: release them"),
    Action.RELEASE: Undo(Action.HOLD, "Undo: hold them again"),
    Action.CANCEL: Undo(Action.RETRY, "Undo: run them again"),
}


def lines_of(report: BulkReport) -> list[tuple[int, str, bool]]:
    """How many met which fate, in words, and whether that is a change; changes first."""
    lines = [(n, FATES[fate], fate not in UNCHANGED) for fate, n in report.fates.items() if n]
    return sorted(lines, key=lambda line: (not line[2], -line[0]))


def undo_of(action: Action, queue: str | None) -> Undo | None:
    """What takes an action back; None where nothing does. `queue` is where all of them were."""
    if action is Action.MOVE and queue is not None:
        return Undo(Action.MOVE, f"Undo: move them back to {queue}", queue)
    return _UNDOES.get(action)
