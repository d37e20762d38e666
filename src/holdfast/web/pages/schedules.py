"""The list of schedules, and the form for a new one."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

import msgspec

from ...errors import HoldfastError
from ...model.schedules import Schedule
from ..api.enqueue import task_of
from ..wire.call import Call
from ..wire.operation import Group
from .forms import words_of
from .frame import Done, Page
from .schedule_forms import NewForm, asked_of, changes_of, preview_of, schedules_of
from .schedule_rows import MISSED, OVERLAP, TONES, path_of, row_of

group = Group("Schedules", kind="page")

SHOWN: Final = 200
RUNS: Final = 16


class SchedulesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters; `make` asks for the form of a new schedule."""

    q: Annotated[str, msgspec.Meta(max_length=128)] = ""
    state: Literal["", "active", "paused", "broken"] = ""
    make: str = ""


@group.get("/schedules", needs="read")
async def show(call: Call, query: SchedulesQuery) -> Page:
    """Show the list, or the form."""
    if query.make:
        return _form(call, asked_of(NewForm()), status=200)
    schedules = call.client.schedules
    found: list[Schedule] = await schedules.alist()
    matching = [one for one in found if query.q.lower() in f"{one.tenant} {one.name} {one.task}".lower()]
    listed = [one for one in matching if query.state in ("", one.state)]
    shown = listed[:SHOWN]
    runs = await schedules.aruns([one.key for one in shown], RUNS) if shown else {}
    return Page(
        "schedules.html",
        {
            "page": "schedules",
            "rows": [row_of(one, runs) for one in shown],
            "query": query,
            "tones": TONES,
            "chips": [
                (state, label, sum(state in ("", one.state) for one in matching), _address(query, state=state))
                for state, label in (("", "All"), ("active", "Active"), ("paused", "Paused"), ("broken", "Broken"))
            ],
            "any": bool(found),
            "left_out": len(listed) - len(shown),
        },
    )


@group.post("/schedules", needs="operate")
async def create(call: Call, form: NewForm) -> Done | Page:
    """Create a schedule that is not declared in code."""
    try:
        if form.preview:
            return _form(call, asked_of(form), status=200, runs=preview_of(call, form))
        given = changes_of(form, None)
        task = task_of(call, form.task.strip()).options(
            queue=given.pop("queue", None), priority=given.pop("priority", None)
        )
        made = await schedules_of(call, form.tenant.strip()).acreate(
            form.name, task, kwargs=given.pop("arguments", None), actor=call.actor, reason=form.reason, **given
        )
    except HoldfastError as wrong:
        return _form(call, asked_of(form), status=422, wrong=words_of(wrong))
    return Done(path_of(made.key), f"{made.name} created. It first runs at the next scheduled time.")


def _form(call: Call, asked: dict[str, Any], *, status: int, **more: Any) -> Page:
    shows = {"page": "schedules", "asked": asked, "tasks": sorted(call.app.tasks), "wrong": "", "runs": None}
    return Page("schedule_new.html", {**shows, "missed": MISSED, "overlap": OVERLAP, **more}, status)


def _address(query: SchedulesQuery, **changes: str) -> str:
    kept = {name: value for name, value in {"q": query.q, "state": query.state, **changes}.items() if value}
    return "/schedules" + (f"?{urlencode(kept)}" if kept else "")
