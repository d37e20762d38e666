"""Schedules: see them, make and change them, run them now or for the past."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ...model.schedule import Missed, Overlap
from ...model.schedule import Schedule as Record
from ...shapes.acting import Changed
from ...shapes.pages import Page, part, place_at, whole
from ...shapes.schedules import (
    Backfill,
    NextRuns,
    Ran,
    Schedule,
    ScheduleMoved,
    Tick,
    of_backfill,
    of_run,
    of_runs,
    of_schedule,
    of_tick,
)
from ...shapes.values import Instant
from ..wire.call import Call
from ..wire.operation import Group
from .newjobs import task_of
from .types import Acting, Listing, Name, PageSize, QueueName, Reason, Seconds, Why

group = Group("Schedules", "Jobs by the clock.")

Expression = Annotated[str, msgspec.Meta(min_length=1, max_length=256, description="Such as 0 3 * * MON-FRI.")]
Zone = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_+/-]+$")]
Interval = Annotated[float, msgspec.Meta(ge=1, le=10 * 365 * 86_400.0, description="Seconds.")]
Priority = Annotated[int, msgspec.Meta(ge=-32768, le=32767)]
MaxMissed = Annotated[int, msgspec.Meta(ge=1, le=1_000)]


class ScheduleEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to change; what is left out or null stays. Either `cron` or `every` says when."""

    cron: Expression | None = None
    every: Interval | None = None
    zone: Zone | None = None
    arguments: dict[str, Any] | None = None
    queue: QueueName | None = None
    priority: Priority | None = None
    missed: Missed | None = None
    max_missed: MaxMissed | None = None
    overlap: Overlap | None = None
    jitter: Seconds | None = None
    cooldown: Seconds | None = None
    reason: Reason = ""


class NewSchedule(ScheduleEdit, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A schedule that no code declares."""

    name: Name
    task: Name


class BackfillWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Ticks from `start` up to but without `end`. In a dry run it is only said which would make a job."""

    start: Instant
    end: Instant
    dry_run: bool = False
    reason: Reason = ""


class TickQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many of the newest."""

    limit: PageSize = 20


class NextQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many."""

    count: PageSize = 5


class PreviewQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An expression, and from when on."""

    cron: Expression
    after: Instant
    zone: Zone = "UTC"
    count: PageSize = 5


@group.get("/schedules", needs="read")
async def list_schedules(call: Call, query: Listing) -> Page[Schedule]:
    """Every schedule, by name, with when it fires next."""
    found: list[Record] = await call.client.schedules.alist()
    if query.after is not None:
        (last,) = place_at(query.after)
        found = [one for one in found if one.name > last]
    found = sorted(found, key=lambda one: one.name)[: query.limit]
    payload = call.may("payload")
    return part(found, query.limit, lambda one: of_schedule(one, payload=payload), lambda one: (one.name,))


@group.post("/schedules", needs="operate", status=201, small=False)
async def create_schedule(call: Call, body: NewSchedule) -> Schedule:
    """Make a schedule at run time. Its first run is at the next tick."""
    task = task_of(call, body.task).options(queue=body.queue, priority=body.priority)
    wanted = _given(body, without=("name", "task", "arguments", "queue", "priority", "reason"))
    made = await call.client.schedules.acreate(
        body.name, task, kwargs=body.arguments, actor=call.actor, reason=body.reason, **wanted
    )
    return of_schedule(made, payload=call.may("payload"))


@group.get("/schedules/{name}", needs="read")
async def get_schedule(call: Call, name: Name) -> Schedule:
    """Everything about a schedule."""
    return of_schedule(await call.client.schedules.aget(name), payload=call.may("payload"))


@group.patch("/schedules/{name}", needs="operate", small=False)
async def edit_schedule(call: Call, name: Name, body: ScheduleEdit) -> ScheduleMoved:
    """Change a schedule. Redeployed code leaves alone what was changed here."""
    before = await call.client.schedules.aget(name)
    wanted = _given(body, without=("reason",))
    after = await call.client.schedules.aedit(name, actor=call.actor, reason=body.reason, **wanted)
    return _moved(call, before, after)


@group.delete("/schedules/{name}", needs="operate")
async def delete_schedule(call: Call, name: Name, query: Why) -> Changed:
    """Remove a schedule; its jobs stay. One that code declares comes back with its worker: pause it instead."""
    await call.client.schedules.adelete(name, actor=call.actor, reason=query.reason)
    return Changed(changed=True)


@group.post("/schedules/{name}/pause", needs="operate")
async def pause_schedule(call: Call, name: Name, body: Acting) -> ScheduleMoved:
    """Fire no more. What it has enqueued goes on; redeploying does not resume it."""
    before = await call.client.schedules.aget(name)
    return _moved(call, before, await call.client.schedules.apause(name, actor=call.actor, reason=body.reason))


@group.post("/schedules/{name}/resume", needs="operate")
async def resume_schedule(call: Call, name: Name, body: Acting) -> ScheduleMoved:
    """Fire again from the next tick on. What was due during the pause is not made up for."""
    before = await call.client.schedules.aget(name)
    return _moved(call, before, await call.client.schedules.aresume(name, actor=call.actor, reason=body.reason))


@group.post("/schedules/{name}/run", needs="operate")
async def run_schedule(call: Call, name: Name, body: Acting) -> Ran:
    """Make a job now, under the overlap policy. The schedule's own ticks stay as they are."""
    return of_run(await call.client.schedules.arun_now(name, actor=call.actor, reason=body.reason))


@group.post("/schedules/{name}/backfill", needs="operate")
async def backfill_schedule(call: Call, name: Name, body: BackfillWanted) -> Backfill:
    """Make the jobs of past ticks that have none, at most 1,000 at once, whatever the overlap policy."""
    done = await call.client.schedules.abackfill(
        name, body.start, body.end, dry_run=body.dry_run, actor=call.actor, reason=body.reason
    )
    return of_backfill(name, done, dry_run=body.dry_run)


@group.get("/schedules/{name}/ticks", needs="read")
async def list_ticks(call: Call, name: Name, query: TickQuery) -> Page[Tick]:
    """The newest ticks that made a job, each with that job."""
    return whole(await call.client.schedules.aticks(name, query.limit), of_tick)


@group.get("/schedules/{name}/next", needs="read")
async def next_runs(call: Call, name: Name, query: NextQuery) -> NextRuns:
    """When a schedule fires next; nothing while it is paused or broken."""
    return of_runs(await call.client.schedules.anext_runs(name, query.count))


@group.get("/cron/preview", needs="read")
async def preview_cron(call: Call, query: PreviewQuery) -> NextRuns:
    """When an expression would fire."""
    return of_runs(call.app.schedules.preview(query.cron, zone=query.zone, after=query.after, count=query.count))


def _given(body: ScheduleEdit, *, without: tuple[str, ...]) -> dict[str, Any]:
    fields = msgspec.structs.asdict(body)
    return {name: value for name, value in fields.items() if value is not None and name not in without}


def _moved(call: Call, before: Record, after: Record) -> ScheduleMoved:
    changed = before.spec != after.spec or before.state != after.state
    return ScheduleMoved(changed=changed, schedule=of_schedule(after, payload=call.may("payload")))
