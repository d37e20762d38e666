"""Actions on many jobs: a preview, the action itself, then the results and an undo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from ...clock import SYSTEM_CLOCK
from ...errors import InvalidInput
from ...model.actions import UNCHANGED, Action, ActionResult, BulkReport
from ...model.answers import JobFilter
from ...names import check_priority, check_queue
from ..search.finding import find_ids
from ..search.meaning import filter_of, is_exact
from ..search.query import Search, parse, write
from ..wire.call import Call
from ..wire.operation import Group
from .frame import Page
from .jobs import address
from .templates import iso

group = Group("Bulk", kind="page")

_NAMED: Final = 2_000
"""Up to this many jobs are listed by id in the confirmation, so the action affects only those and can be undone."""
_MOST: Final = 20_000
"""The maximum number of jobs listed by id where the search checks jobs one by one."""
_NO_PRIORITY: Final = 32_767
_ANY_QUEUE: Final = "default"


class BulkForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The selected jobs and the action. `ids` come from the previous page; `filter` is a search."""

    action: Action
    id: list[str] = []
    ids: str = ""
    scope: str = "chosen"
    filter: str = ""
    confirmed: str = ""
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""
    priority: str = ""
    to_queue: str = ""
    force: str = ""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The selected jobs: ids, or a filter the store can evaluate."""

    ids: list[str] | None = None
    wanted: JobFilter | None = None
    complete: bool = True

    @property
    def all(self) -> bool:
        return self.wanted == JobFilter()

    def said(self) -> dict[str, Any]:
        """Return the selection as `jobs.bulk` takes it."""
        if self.ids is not None:
            return {"ids": self.ids}
        return {"all": True} if self.all else {"filter": self.wanted}


@group.post("/jobs", needs="operate")
async def act(call: Call, form: BulkForm) -> Page:
    """Show the preview, or with `confirmed` perform the action."""
    search = parse(form.filter)
    wrong = _lacks(form)
    if form.confirmed and not wrong:
        meant = _again(form, search)
        report = await _run(call, form, meant, dry_run=False)
        return Page("bulk_done.html", _done(form, search, report))
    meant = await _settled(call, form, search)
    report = await _run(call, form, meant, dry_run=True)
    return Page("bulk.html", _asks(form, search, meant, report, wrong), 422 if wrong and form.confirmed else 200)


async def _settled(call: Call, form: BulkForm, search: Search) -> Selection:
    """Return the jobs selected now; later ones are not included."""
    if form.scope != "matching":
        return Selection(ids=_ids(form))
    now = SYSTEM_CLOCK.now()
    payload = call.may("payload")
    if not is_exact(search):
        ids, complete = await find_ids(call.client.jobs, search, now, payload=payload, most=_MOST)
        return Selection(ids=ids, complete=complete)
    ids, complete = await find_ids(call.client.jobs, search, now, payload=payload, most=_NAMED)
    return Selection(ids=ids) if complete else Selection(wanted=filter_of(search, now))


def _again(form: BulkForm, search: Search) -> Selection:
    if form.scope != "matching" or form.ids:
        return Selection(ids=_ids(form))
    return Selection(wanted=filter_of(search, SYSTEM_CLOCK.now()))


def _ids(form: BulkForm) -> list[str]:
    return list(dict.fromkeys([*form.id, *(one for one in form.ids.split(",") if one)]))


async def _run(call: Call, form: BulkForm, meant: Selection, *, dry_run: bool) -> BulkReport:
    return await call.client.jobs.abulk(
        form.action,
        **meant.said(),
        dry_run=dry_run,
        actor=call.actor,
        reason=form.reason,
        priority=_priority(form) if form.action is Action.PRIORITY else None,
        to_queue=(form.to_queue or _ANY_QUEUE) if form.action is Action.MOVE else None,
        force=bool(form.force) and form.action is Action.CANCEL,
    )


def _priority(form: BulkForm) -> int:
    # Placeholder for a missing number; no job has it, so the preview counts all of them.
    return int(form.priority) if _is_whole(form.priority) else _NO_PRIORITY


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 7


def _lacks(form: BulkForm) -> str:
    """Return the error for a missing or invalid parameter of the action."""
    try:
        if form.action is Action.PRIORITY:
            check_priority(int(form.priority) if _is_whole(form.priority) else form.priority)
        elif form.action is Action.MOVE:
            check_queue(form.to_queue)
    except InvalidInput as wrong:
        return str(wrong)
    return ""


def _asks(form: BulkForm, search: Search, meant: Selection, report: BulkReport, wrong: str) -> dict[str, Any]:
    now = iso(SYSTEM_CLOCK.now())
    # Filter by what matched before: jobs that arrived since are not included.
    later = search.until is None and meant.ids is None
    return {
        "page": "jobs",
        "action": str(form.action),
        "words": ACTIONS[form.action],
        "report": report,
        "lines": lines_of(report),
        "ids": ",".join(meant.ids) if meant.ids is not None else "",
        "sample": (meant.ids or [])[:8],
        "filter": write(search.but(until=now)) if later else form.filter,
        "scope": form.scope,
        "complete": meant.complete,
        "wrong": wrong if form.confirmed else "",
        "form": form,
        "search": form.filter,
        "back": address(search),
    }


def _done(form: BulkForm, search: Search, report: BulkReport) -> dict[str, Any]:
    changed = [job_id for job_id, fate in report.by_id.items() if fate not in UNCHANGED]
    undo: Undo | None = undo_of(form.action, search.queue) if changed and report.changed == len(changed) else None
    return {
        "page": "jobs",
        "action": str(form.action),
        "words": ACTIONS[form.action],
        "report": report,
        "lines": lines_of(report),
        "undo": undo,
        "changed": ",".join(changed),
        "jobs": changed[:20],
        "back": address(search.but(until=None)),
    }


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
