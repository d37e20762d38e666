"""Actions on many jobs: a preview, the action itself, then the results and an undo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from ...clock import SYSTEM_CLOCK
from ...errors import InvalidInput
from ...model.actions import Action, BulkReport
from ...model.answers import JobFilter
from ...rules.actions import ACTIONS, JobAction
from ..search.finding import find_ids
from ..search.meaning import filter_of, is_exact
from ..search.query import Search, parse, write
from ..wire.call import Call
from ..wire.operation import Group
from .forms import values_of
from .frame import Page
from .jobs import address
from .templates import iso

group = Group("Bulk", kind="page")

_NAMED: Final = 2_000
"""Up to this many jobs are listed by id in the confirmation, so the action affects only those and can be undone."""
_MOST: Final = 20_000
"""The maximum number of jobs listed by id where the search checks jobs one by one."""


class BulkForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The selected jobs and the action. `ids` come from the previous page; `filter` is a search."""

    action: Action
    id: list[str] = []
    ids: str = ""
    scope: str = "chosen"
    filter: str = ""
    confirmed: str = ""
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""


_ParameterForm: Final = msgspec.defstruct(
    "_ParameterForm",
    [(name, str, "") for name in {one.name: one for record in ACTIONS.values() for one in record.parameters}],
    bases=(BulkForm,),
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
)


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


act.__annotations__["form"] = _ParameterForm
group.post("/jobs", needs="operate")(act)


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
        **_given(form, dry_run=dry_run),
    )


def _given(form: BulkForm, *, dry_run: bool) -> dict[str, Any]:
    """Return the parameters. A preview does without those that are missing or wrong."""
    try:
        return values_of(ACTIONS[form.action], form)
    except InvalidInput:
        if dry_run:
            return {}
        raise


def _lacks(form: BulkForm) -> str:
    """Return the error for a missing or invalid parameter of the action."""
    record = ACTIONS[form.action]
    try:
        record.order(values_of(record, form))
    except InvalidInput as wrong:
        return str(wrong)
    return ""


def _asks(form: BulkForm, search: Search, meant: Selection, report: BulkReport, wrong: str) -> dict[str, Any]:
    record = ACTIONS[form.action]
    now = iso(SYSTEM_CLOCK.now())
    # Filter by what matched before: jobs that arrived since are not included.
    later = search.until is None and meant.ids is None
    return {
        "page": "jobs",
        "action": str(form.action),
        "record": record,
        "ask": record.many or record.label,
        "given": {one.name: getattr(form, one.name) for one in record.parameters},
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
    record = ACTIONS[form.action]
    changed = [one.id for one in report.results if one.outcome.changes]
    undo = undo_of(record, search.queue) if changed and report.changed == len(changed) else None
    return {
        "page": "jobs",
        "action": str(form.action),
        "record": record,
        "report": report,
        "lines": lines_of(report),
        "undo": undo,
        "changed": ",".join(changed),
        "jobs": changed[:20],
        "back": address(search.but(until=None)),
    }


@dataclass(frozen=True, slots=True)
class Undo:
    """The action that undoes another."""

    action: Action
    label: str
    queue: str = ""


def lines_of(report: BulkReport) -> list[tuple[int, str, bool]]:
    """Return the number of jobs per outcome with its text, and whether it is a change; changes first."""
    record = ACTIONS[report.action]
    lines = [(n, record.outcome(result).of(n), result.changes) for result, n in report.counts.items() if n]
    return sorted(lines, key=lambda line: (not line[2], -line[0]))


def undo_of(record: JobAction, queue: str | None) -> Undo | None:
    """Return the action that undoes this one; None if there is none. `queue` is where all jobs were before."""
    if record.undo is None:
        return None
    action, label = record.undo
    if action is Action.MOVE:
        return None if queue is None else Undo(action, f"Undo: {label.format(queue=queue)}", queue)
    return Undo(action, f"Undo: {label}")
