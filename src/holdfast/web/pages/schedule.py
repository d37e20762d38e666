"""The page of one schedule: next and past runs, its definition, edit and backfill."""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import wraps
from typing import Any, Final, Literal

import msgspec

from ...clock import SECOND, SYSTEM_CLOCK
from ...errors import Conflict, HoldfastError, InvalidInput
from ...model.schedules import Schedule, ScheduleState
from ...model.values import decoded
from ...rules.cron import check_zone
from ..wire.call import Call
from ..wire.operation import Group
from .forms import Act, ActForm, ask, sentence, words_of
from .frame import Done, Page
from .schedule_forms import BackfillForm, EditForm, asked_as, changes_of, instant_of, preview_of
from .schedule_rows import MISSED, OVERLAP, TONES, row_of
from .templates import below, job_path, number

group = Group("Schedule", kind="page")

_NEXT: Final = 8
_RUNS: Final = 50
_AUDIT: Final = 10


class ScheduleQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tab."""

    tab: Literal["runs", "edit", "backfill"] = "runs"


@group.get("/schedules/{name}", needs="read")
async def show(call: Call, name: str, query: ScheduleQuery) -> Page:
    """Show a schedule."""
    return Page("schedule.html", await shows(call, name, query.tab))


async def shows(call: Call, name: str, tab: str, **more: Any) -> dict[str, Any]:
    """Return the context of the page."""
    schedules = call.client.schedules
    schedule: Schedule = await schedules.aget(name)
    runs, coming, audit = await asyncio.gather(
        schedules.aruns([schedule.name], _RUNS),
        schedules.anext_runs(name, _NEXT),
        call.client.audit.alist(target_kind="schedule", target=_key(call, name), limit=_AUDIT),
    )
    row, payload, path = row_of(schedule, runs), call.may("payload"), below("schedules", schedule.name)
    options = decoded(schedule.options)
    tabs = [("runs", "Runs", path)]
    if call.may("operate"):
        tabs += [("edit", "Edit", f"{path}?tab=edit"), ("backfill", "Backfill", f"{path}?tab=backfill")]
    return {
        "page": "schedules",
        "schedule": schedule,
        "row": row,
        "path": path,
        "tab": tab if call.may("operate") else "runs",
        "tabs": tabs,
        "tone": TONES[schedule.state],
        "coming": [(int(at.timestamp()) * SECOND, f"{at:%a %d %b, %H:%M:%S}") for at in coming],
        "runs": row.runs[::-1],
        "audit": audit,
        "payload": payload,
        "arguments": decoded(schedule.payload) if payload else None,
        "priority": options.get("priority", 0) if isinstance(options, dict) else 0,
        "tenant": options.get("tenant") if isinstance(options, dict) else None,
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


def _key(call: Call, name: str) -> str:
    """Return the full name as in the audit log, including the tenant."""
    return f"{call.identity.tenant}/{name}" if call.identity.tenant else name


def _told(act: Act) -> Act:
    @wraps(act)
    async def telling(call: Call, name: str, **given: Any) -> Done | Page:
        try:
            return await act(call, name, **given)
        except (Conflict, InvalidInput) as refused:
            return Done(below("schedules", name), sentence(str(refused)), ok=False)

    return telling


@group.post("/schedules/{name}/pause", needs="operate")
@_told
async def pause(call: Call, name: str, form: ActForm) -> Done | Page:
    """Pause the schedule."""
    before = await call.client.schedules.aget(name)
    if before.state is ScheduleState.PAUSED:
        return Done(below("schedules", name), "The schedule was already paused.", ok=False)
    await call.client.schedules.apause(name, actor=call.actor, reason=form.reason)
    return Done(below("schedules", name), "Paused until you resume it. A redeploy does not resume it.")


@group.post("/schedules/{name}/resume", needs="operate")
@_told
async def resume(call: Call, name: str, form: ActForm) -> Done | Page:
    """Resume the schedule."""
    before = await call.client.schedules.aget(name)
    if before.state is ScheduleState.ACTIVE:
        return Done(below("schedules", name), "The schedule was already active.", ok=False)
    await call.client.schedules.aresume(name, actor=call.actor, reason=form.reason)
    return Done(below("schedules", name), "Active again from the next scheduled time.")


@group.post("/schedules/{name}/run", needs="operate")
@_told
async def run(call: Call, name: str, form: ActForm) -> Done | Page:
    """Enqueue a job now."""
    ran = await call.client.schedules.arun_now(name, actor=call.actor, reason=form.reason)
    if ran.job_id is None:
        return Done(
            below("schedules", name),
            f"No job enqueued: {ran.blocker} is still running, and overlaps are skipped.",
            ok=False,
        )
    return Done(job_path(ran.job_id), f"Enqueued by {name}. The schedule itself is unchanged.")


@group.post("/schedules/{name}/delete", needs="operate")
@_told
async def delete(call: Call, name: str, form: ActForm) -> Done | Page:
    """Delete the schedule."""
    if not form.confirmed:
        text = "Its jobs are kept. A schedule declared in code is recreated by the next worker start; pause it instead."
        return ask(call, form, title=f"Delete {name}?", text=text, go="Delete", back=below("schedules", name),
                   page="schedules", danger=True)  # fmt: skip
    await call.client.schedules.adelete(name, actor=call.actor, reason=form.reason)
    return Done("/schedules", f"{name} deleted. Its jobs are kept.")


@group.post("/schedules/{name}/edit", needs="operate")
async def edit(call: Call, name: str, form: EditForm) -> Done | Page:
    """Change its definition, or preview the next runs."""
    asked = {key: getattr(form, key) for key in form.__struct_fields__}
    schedule = await call.client.schedules.aget(name)
    try:
        if form.preview:
            more = {"asked": asked, "preview": preview_of(call, form)}
            return Page("schedule.html", await shows(call, name, "edit", **more))
        changes = changes_of(form, schedule)
        if not call.may("payload"):
            changes.pop("arguments", None)
        if not changes:
            return Done(below("schedules", name), "No changes.", ok=False)
        await call.client.schedules.aedit(name, actor=call.actor, reason=form.reason, **changes)
    except HoldfastError as wrong:
        more = {"asked": asked, "wrong": words_of(wrong)}
        return Page("schedule.html", await shows(call, name, "edit", **more), 422)
    return Done(below("schedules", name), f"Changed: {', '.join(sorted(changes))}. A redeploy does not overwrite this.")


@group.post("/schedules/{name}/backfill", needs="operate")
async def backfill(call: Call, name: str, form: BackfillForm) -> Done | Page:
    """Enqueue the missing jobs of past runs: first a preview, then with `confirmed` the jobs."""
    schedules = call.client.schedules
    schedule = await schedules.aget(name)
    try:
        start, end = instant_of("from", form.start, schedule.zone), instant_of("to", form.end, schedule.zone)
        done = await schedules.abackfill(
            name, start, end, dry_run=not form.confirmed, actor=call.actor, reason=form.reason
        )  # fmt: skip
    except (Conflict, InvalidInput) as wrong:
        more = {"span": {"start": form.start, "end": form.end}, "wrong": words_of(wrong)}
        return Page("schedule.html", await shows(call, name, "backfill", **more), 422)
    if form.confirmed:
        said = f"{number(len(done.made))} jobs enqueued." if done.made else "All runs in that period already exist."
        return Done(below("schedules", name), said, ok=bool(done.made))
    span = {"start": form.start, "end": form.end}
    return Page("schedule.html", await shows(call, name, "backfill", span=span, found=done))
