"""The page of one schedule: next and past runs, its definition, edit and backfill."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from ...clock import SECOND, SYSTEM_CLOCK
from ...errors import Conflict, HoldfastError, InvalidInput
from ...model.schedules import Schedule, ScheduleKey, ScheduleState
from ...rules.cron import check_zone
from ..wire.call import Call
from ..wire.operation import Group
from .forms import Word, ask, refusals_at, words_of
from .frame import Done, Page
from .schedule_forms import (
    BackfillForm,
    EditForm,
    ScheduleForm,
    asked_as,
    changes_of,
    instant_of,
    preview_of,
    schedules_of,
)
from .schedule_rows import MISSED, OVERLAP, TONES, path_of, row_of
from .templates import below, job_path, number

group = Group("Schedule", kind="page")

_NEXT: Final = 8
_RUNS: Final = 50
_AUDIT: Final = 10


class ScheduleQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tenant and the tab."""

    tenant: Word = ""
    tab: Literal["runs", "edit", "backfill"] = "runs"


@group.get("/schedules/{name}", needs="read")
async def show(call: Call, name: str, query: ScheduleQuery) -> Page:
    """Show a schedule."""
    return Page("schedule.html", await shows(call, query.tenant, name, query.tab))


async def shows(call: Call, tenant: str, name: str, tab: str, **more: Any) -> dict[str, Any]:
    """Return the context of the page."""
    schedules = schedules_of(call, tenant)
    schedule = await schedules.aget(name)
    runs, coming, audit = await asyncio.gather(
        schedules.aruns([schedule.key], _RUNS),
        schedules.anext_runs(name, _NEXT),
        call.client.audit.alist(target_kind="schedule", target=name, tenant=schedule.tenant, limit=_AUDIT),
    )
    row, payload, key = row_of(schedule, runs), call.may("payload"), schedule.key
    tabs = [("runs", "Runs", path_of(key))]
    if call.may("operate"):
        tabs += [("edit", "Edit", path_of(key, tab="edit")), ("backfill", "Backfill", path_of(key, tab="backfill"))]
    return {
        "page": "schedules",
        "schedule": schedule,
        "row": row,
        "path": below("schedules", schedule.name),
        "tab": tab if call.may("operate") else "runs",
        "tabs": tabs,
        "tone": TONES[schedule.state],
        "coming": [(int(at.timestamp()) * SECOND, f"{at:%a %d %b, %H:%M:%S}") for at in coming],
        "runs": row.runs[::-1],
        "audit": audit,
        "payload": payload,
        "arguments": schedule.arguments if payload else None,
        "raw": msgspec.json.encode(schedule.arguments).decode() if payload else None,
        "priority": schedule.options.get("priority", 0),
        "asked": asked_as(schedule, payload=payload),
        "missed": MISSED,
        "overlap": OVERLAP,
        "preview": None,
        "wrong": "",
        "span": _span(schedule),
        **more,
    }


def _span(schedule: Schedule) -> dict[str, str]:
    """Return the default range of a backfill: the last day, in the schedule's time zone."""
    now = datetime.fromtimestamp(SYSTEM_CLOCK.now() // SECOND, check_zone(schedule.zone)).replace(second=0)
    day = now.replace(hour=0, minute=0)
    return {"start": f"{day:%Y-%m-%dT%H:%M}", "end": f"{now:%Y-%m-%dT%H:%M}"}


_on_its_page = refusals_at(lambda name, form, **_: path_of(ScheduleKey(form.tenant, name)))


@group.post("/schedules/{name}/pause", needs="operate")
@_on_its_page
async def pause(call: Call, name: str, form: ScheduleForm) -> Done | Page:
    """Pause the schedule."""
    before = await schedules_of(call, form.tenant).aget(name)
    if before.state is ScheduleState.PAUSED:
        return Done(path_of(ScheduleKey(form.tenant, name)), "The schedule was already paused.", ok=False)
    await schedules_of(call, form.tenant).apause(name, actor=call.actor, reason=form.reason)
    return Done(path_of(ScheduleKey(form.tenant, name)), "Paused until you resume it. A redeploy does not resume it.")


@group.post("/schedules/{name}/resume", needs="operate")
@_on_its_page
async def resume(call: Call, name: str, form: ScheduleForm) -> Done | Page:
    """Resume the schedule."""
    before = await schedules_of(call, form.tenant).aget(name)
    if before.state is ScheduleState.ACTIVE:
        return Done(path_of(ScheduleKey(form.tenant, name)), "The schedule was already active.", ok=False)
    await schedules_of(call, form.tenant).aresume(name, actor=call.actor, reason=form.reason)
    return Done(path_of(ScheduleKey(form.tenant, name)), "Active again from the next scheduled time.")


@group.post("/schedules/{name}/run", needs="operate")
@_on_its_page
async def run(call: Call, name: str, form: ScheduleForm) -> Done | Page:
    """Enqueue a job now."""
    ran = await schedules_of(call, form.tenant).arun_now(name, actor=call.actor, reason=form.reason)
    if ran.job_id is None:
        return Done(
            path_of(ScheduleKey(form.tenant, name)),
            f"No job enqueued: {ran.blocker} is still running, and overlaps are skipped.",
            ok=False,
        )
    return Done(job_path(ran.job_id), f"Enqueued by {name}. The schedule itself is unchanged.")


@group.post("/schedules/{name}/delete", needs="operate")
@_on_its_page
async def delete(call: Call, name: str, form: ScheduleForm) -> Done | Page:
    """Delete the schedule."""
    if not form.confirmed:
        text = "Its jobs are kept. A schedule declared in code is recreated by the next worker start; pause it instead."
        return ask(call, form, title=f"Delete {name}?", text=text, go="Delete",
                   back=path_of(ScheduleKey(form.tenant, name)), page="schedules", danger=True)  # fmt: skip
    await schedules_of(call, form.tenant).adelete(name, actor=call.actor, reason=form.reason)
    return Done("/schedules", f"{name} deleted. Its jobs are kept.")


@group.post("/schedules/{name}/edit", needs="operate")
async def edit(call: Call, name: str, form: EditForm) -> Done | Page:
    """Change its definition, or preview the next runs."""
    asked = {key: getattr(form, key) for key in form.__struct_fields__}
    schedule = await schedules_of(call, form.tenant).aget(name)
    try:
        if form.preview:
            more = {"asked": asked, "preview": preview_of(call, form)}
            return Page("schedule.html", await shows(call, form.tenant, name, "edit", **more))
        changes = changes_of(form, schedule)
        if not call.may("payload"):
            changes.pop("arguments", None)
        if not changes:
            return Done(path_of(ScheduleKey(form.tenant, name)), "No changes.", ok=False)
        await schedules_of(call, form.tenant).aedit(name, actor=call.actor, reason=form.reason, **changes)
    except HoldfastError as wrong:
        more = {"asked": asked, "wrong": words_of(wrong)}
        return Page("schedule.html", await shows(call, form.tenant, name, "edit", **more), 422)
    return Done(
        path_of(ScheduleKey(form.tenant, name)),
        f"Changed: {', '.join(sorted(changes))}. A redeploy does not overwrite this.",
    )


@group.post("/schedules/{name}/backfill", needs="operate")
async def backfill(call: Call, name: str, form: BackfillForm) -> Done | Page:
    """Enqueue the missing jobs of past runs: first a preview, then with `confirmed` the jobs."""
    schedules = schedules_of(call, form.tenant)
    schedule = await schedules.aget(name)
    try:
        start, end = instant_of("from", form.start, schedule.zone), instant_of("to", form.end, schedule.zone)
        done = await schedules.abackfill(
            name, start, end, dry_run=not form.confirmed, actor=call.actor, reason=form.reason
        )  # fmt: skip
    except (Conflict, InvalidInput) as wrong:
        more = {"span": {"start": form.start, "end": form.end}, "wrong": words_of(wrong)}
        return Page("schedule.html", await shows(call, form.tenant, name, "backfill", **more), 422)
    if form.confirmed:
        said = f"{number(len(done.made))} jobs enqueued." if done.made else "All runs in that period already exist."
        return Done(path_of(ScheduleKey(form.tenant, name)), said, ok=bool(done.made))
    span = {"start": form.start, "end": form.end}
    return Page("schedule.html", await shows(call, form.tenant, name, "backfill", span=span, found=done))
