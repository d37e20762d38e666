"""Schedules: list, create, change, run and backfill them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from ...client.schedules import StoredSchedules
from ...model.schedules import Backfill, Missed, Overlap, Ran, Schedule, Tick
from ...model.values import Instant
from ..wire.call import Call
from ..wire.operation import Group
from .budgets import TenantAndReason, TenantListing, TenantQuery
from .enqueue import task_of
from .paging import Page, part, place_at, whole
from .types import Acting, Changed, Name, PageSize, QueueName, Reason, Seconds

group = Group("Schedules", "Recurring jobs.")

Expression = Annotated[str, msgspec.Meta(min_length=1, max_length=256, description="For example 0 3 * * MON-FRI.")]
Zone = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_+/-]+$")]
Interval = Annotated[float, msgspec.Meta(ge=1, le=10 * 365 * 86_400.0, description="Seconds.")]
Priority = Annotated[int, msgspec.Meta(ge=-32768, le=32767)]
MaxMissed = Annotated[int, msgspec.Meta(ge=1, le=1_000)]


class ScheduleEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The changes; fields left out or null are unchanged. Either `cron` or `every` gives the times."""

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
    """A schedule not declared in code."""

    name: Name
    task: Name


class BackfillWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Past runs from `start` up to but excluding `end`. A dry run only lists them."""

    start: Instant
    end: Instant
    dry_run: bool = False
    reason: Reason = ""


class ScheduleMoved(Changed, frozen=True, kw_only=True):
    """A schedule after it was paused, resumed or edited."""

    schedule: Schedule


class NextRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The next ticks, in UTC."""

    next: list[Instant]


class TickQuery(TenantQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tenant, and the maximum number, newest first."""

    limit: PageSize = 20


class NextQuery(TenantQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tenant, and the maximum number."""

    count: PageSize = 5


class PreviewQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An expression, and the start time."""

    cron: Expression
    after: Instant
    zone: Zone = "UTC"
    count: PageSize = 5


@group.get("/schedules", needs="read")
async def list_schedules(call: Call, query: TenantListing) -> Page[Schedule]:
    """List the schedules by tenant and name, with their next run."""
    found = await _schedules(call, query.tenant).alist()
    if query.after is not None:
        last = place_at(query.after, 2)
        found = [one for one in found if one.key > last]
    return part([_shown(call, one) for one in found[: query.limit]], query.limit, lambda one: (one.tenant, one.name))


@group.post("/schedules", needs="operate", status=201, small=False)
async def create_schedule(call: Call, query: TenantQuery, body: NewSchedule) -> Schedule:
    """Create a schedule.

    Its first run is at the next scheduled time.
    """
    task = task_of(call, body.task).options(queue=body.queue, priority=body.priority)
    wanted = _given(body, without=("name", "task", "arguments", "queue", "priority", "reason"))
    made = await _schedules(call, query.tenant).acreate(
        body.name, task, kwargs=body.arguments, actor=call.actor, reason=body.reason, **wanted
    )
    return _shown(call, made)


@group.get("/schedules/{name}", needs="read")
async def get_schedule(call: Call, name: Name, query: TenantQuery) -> Schedule:
    """Get a schedule."""
    return _shown(call, await _schedules(call, query.tenant).aget(name))


@group.patch("/schedules/{name}", needs="operate", small=False)
async def edit_schedule(call: Call, name: Name, query: TenantQuery, body: ScheduleEdit) -> ScheduleMoved:
    """Change a schedule. A redeploy does not overwrite the changes."""
    before = await _schedules(call, query.tenant).aget(name)
    wanted = _given(body, without=("reason",))
    after = await _schedules(call, query.tenant).aedit(name, actor=call.actor, reason=body.reason, **wanted)
    return _moved(call, before, after)


@group.delete("/schedules/{name}", needs="operate")
async def delete_schedule(call: Call, name: Name, query: TenantAndReason) -> Changed:
    """Delete a schedule; its jobs are kept.

    A schedule declared in code is recreated by the next worker start: pause it instead.
    """
    await _schedules(call, query.tenant).adelete(name, actor=call.actor, reason=query.reason)
    return Changed(changed=True)


@group.post("/schedules/{name}/pause", needs="operate")
async def pause_schedule(call: Call, name: Name, query: TenantQuery, body: Acting) -> ScheduleMoved:
    """Pause a schedule. Its jobs are not affected; a redeploy does not resume it."""
    schedules = _schedules(call, query.tenant)
    before = await schedules.aget(name)
    return _moved(call, before, await schedules.apause(name, actor=call.actor, reason=body.reason))


@group.post("/schedules/{name}/resume", needs="operate")
async def resume_schedule(call: Call, name: Name, query: TenantQuery, body: Acting) -> ScheduleMoved:
    """Resume a schedule from the next scheduled time. Runs missed during the pause are not made up."""
    before = await _schedules(call, query.tenant).aget(name)
    return _moved(
        call, before, await _schedules(call, query.tenant).aresume(name, actor=call.actor, reason=body.reason)
    )


@group.post("/schedules/{name}/run", needs="operate")
async def run_schedule(call: Call, name: Name, query: TenantQuery, body: Acting) -> Ran:
    """Enqueue a job now, under the overlap policy. The schedule itself is unchanged."""
    return await _schedules(call, query.tenant).arun_now(name, actor=call.actor, reason=body.reason)


@group.post("/schedules/{name}/backfill", needs="operate")
async def backfill_schedule(call: Call, name: Name, query: TenantQuery, body: BackfillWanted) -> Backfill:
    """Backfill: enqueue the missing jobs of past runs, at most 1,000 per call, ignoring the overlap policy."""
    return await _schedules(call, query.tenant).abackfill(
        name, body.start, body.end, dry_run=body.dry_run, actor=call.actor, reason=body.reason
    )


@group.get("/schedules/{name}/ticks", needs="read")
async def list_ticks(call: Call, name: Name, query: TickQuery) -> Page[Tick]:
    """List the latest runs, each with its job."""
    return whole(await _schedules(call, query.tenant).aticks(name, query.limit))


@group.get("/schedules/{name}/next", needs="read")
async def next_runs(call: Call, name: Name, query: NextQuery) -> NextRuns:
    """List the next runs; none while it is paused or broken."""
    return _next_runs(await _schedules(call, query.tenant).anext_runs(name, query.count))


@group.get("/cron/preview", needs="read")
async def preview_cron(call: Call, query: PreviewQuery) -> NextRuns:
    """List the next runs of an expression."""
    return _next_runs(call.app.schedules.preview(query.cron, zone=query.zone, after=query.after, count=query.count))


def _schedules(call: Call, tenant: str | None) -> StoredSchedules:
    schedules: StoredSchedules = call.client.schedules
    return schedules if tenant is None else schedules.of(tenant)


def _given(body: ScheduleEdit, *, without: tuple[str, ...]) -> dict[str, Any]:
    fields = msgspec.structs.asdict(body)
    return {name: value for name, value in fields.items() if value is not None and name not in without}


_DEFINITION: Final = (
    "state", "cron", "every", "zone", "task", "arguments", "tick_argument", "queue", "options", "missed", "max_missed",
    "overlap", "jitter", "cooldown",
)  # fmt: skip


def _moved(call: Call, before: Schedule, after: Schedule) -> ScheduleMoved:
    changed = any(getattr(before, name) != getattr(after, name) for name in _DEFINITION)
    return ScheduleMoved(changed=changed, schedule=_shown(call, after))


def _shown(call: Call, schedule: Schedule) -> Schedule:
    return schedule if call.may("payload") else schedule.without_payload()


def _next_runs(runs: Sequence[datetime]) -> NextRuns:
    return NextRuns(next=[at.astimezone(UTC) for at in runs])
