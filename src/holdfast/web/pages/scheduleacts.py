"""Operator actions on a schedule: pause, resume, run now, edit, backfill, delete."""

from __future__ import annotations

from functools import wraps
from typing import Any

from ...errors import Conflict, HoldfastError, InvalidInput
from ...model.schedules import ScheduleState
from ..wire.call import Call
from ..wire.operation import Group
from .addresses import below, job_path
from .asking import Act, ActForm, ask, sentence, words_of
from .filters import number
from .frame import Done, Page
from .schedule import shows
from .scheduleforms import BackfillForm, EditForm, changes_of, instant_of, preview_of

group = Group("Schedule actions", kind="page")


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
