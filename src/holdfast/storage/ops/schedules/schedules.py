"""Schedules as rows: create, read, change, pause, delete, prune."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ....errors import Conflict, Corruption, InvalidInput, NotFound
from ....model.schedules import (
    FIELDS,
    TIMING_FIELDS,
    ScheduledRun,
    ScheduleKey,
    ScheduleRecord,
    ScheduleSpec,
    ScheduleState,
)
from ....model.values import instant_of
from ....rules.schedules import next_tick
from ...port import Row, Tx, Value
from ...statements import sql
from ..audit import audit
from ..jobs.queries import clock

MOST: Final = 10_000
_PAGE: Final = 1_000
_PRUNE_PAGE: Final = 500

Change = Callable[[ScheduleRecord], ScheduleSpec]
"""Returns the new definition of a schedule. It is called with the row as it is when it is changed."""


@dataclass(frozen=True, slots=True)
class Operator:
    """The actor, and the reason."""

    actor: str = "app"
    reason: str = ""

    async def record(self, tx: Tx, action: str, key: ScheduleKey, before: object, after: object) -> None:
        said = {"action": action, "target": key.name, "reason": self.reason}
        await audit(tx, actor=self.actor, **said, before=before, after=after, tenant=key.tenant)


APP: Final = Operator()


async def get_schedule(tx: Tx, key: ScheduleKey) -> ScheduleRecord:
    row = await tx.one(sql.get_schedule, tenant=key.tenant, name=key.name)
    if row is None:
        raise NotFound("schedule", key.name)
    return _schedule(row)


async def hold_schedule(tx: Tx, key: ScheduleKey) -> tuple[ScheduleRecord, int]:
    """Lock a schedule until the end of this transaction; return it with the time of the reading."""
    row = await tx.one(sql.hold_schedule, tenant=key.tenant, name=key.name)
    if row is None:
        raise NotFound("schedule", key.name)
    return _schedule(row), row[-1]


async def list_schedules(tx: Tx, tenant: str | None = None) -> list[ScheduleRecord]:
    """List all schedules, or those of one tenant, by tenant and name."""
    found: list[ScheduleRecord] = []
    while True:
        last = found[-1].key if found else ScheduleKey("", "")
        rows = await tx.all(sql.list_schedules, tenant=tenant, after_tenant=last.tenant, after_name=last.name, n=_PAGE)
        found += [_schedule(row) for row in rows]
        if len(rows) < _PAGE:
            return found


async def ticks_of(tx: Tx, key: ScheduleKey, n: int) -> list[tuple[int, str]]:
    """Return the newest ticks that made a job, with that job's id."""
    await get_schedule(tx, key)
    rows = await tx.all(sql.schedule_ticks, tenant=key.tenant, schedule=key.name, n=n)
    return [(tick, job_id) for tick, job_id in rows]


async def runs_of(tx: Tx, keys: Sequence[ScheduleKey], n: int) -> dict[ScheduleKey, list[ScheduledRun]]:
    """Return the newest ticks of each schedule that made a job, with that job's state."""
    found: dict[ScheduleKey, list[ScheduledRun]] = {}
    for tenant, name, *run in await tx.all(sql.runs_of_schedules, keys=json.dumps(keys), last=n - 1):
        found.setdefault(ScheduleKey(tenant, name), []).append(_run(*run))
    return found


async def create_schedule(tx: Tx, spec: ScheduleSpec, by: Operator = APP) -> ScheduleRecord:
    """Create a schedule at run time. Its first tick is the next one: nothing is fired for the past."""
    if not await _insert(tx, spec, "runtime", await clock(tx)):
        raise Conflict(f"there is a schedule {spec.name!r} already; edit it, or choose another name")
    await by.record(tx, "schedule.create", spec.key, None, _fields(spec))
    tx.notify("schedules")
    return await get_schedule(tx, spec.key)


async def ensure_schedules(tx: Tx, specs: Sequence[ScheduleSpec]) -> list[str]:
    """Store the schedules that code declares; return the names of those that changed. Operators' changes stay."""
    now = await clock(tx)
    # In one order by every worker, so that two that start at once never wait for each other.
    order = sorted(specs, key=lambda spec: spec.key)
    changed = [spec.name for spec in order if await _insert(tx, spec, "code", now) or await _follow_code(tx, spec)]
    if changed:
        tx.notify("schedules")
    return changed


async def edit_schedule(tx: Tx, key: ScheduleKey, change: Change, by: Operator = APP) -> ScheduleRecord:
    """Change a schedule as an operator: code does not overwrite the change. Past ticks are not made again."""
    schedule, now = await hold_schedule(tx, key)
    wanted = change(schedule)
    touched = _differences(schedule, wanted)
    if not touched:
        return schedule
    edited = tuple(sorted({*schedule.edited, *touched}))
    await _store(tx, schedule, wanted, edited=edited, now=now)
    before, after = ({field: getattr(of, field) for field in touched} for of in (schedule, wanted))
    await by.record(tx, "schedule.edit", key, before, after)
    tx.notify("schedules")
    return await get_schedule(tx, key)


async def pause_schedule(tx: Tx, key: ScheduleKey, by: Operator = APP) -> ScheduleRecord:
    """Stop firing. Jobs that it has enqueued still run."""
    schedule, _ = await hold_schedule(tx, key)
    if schedule.state is not ScheduleState.PAUSED:
        await _write(tx, replace(schedule, state=ScheduleState.PAUSED, next_tick=None))
        await by.record(tx, "schedule.pause", key, str(schedule.state), str(ScheduleState.PAUSED))
    return await get_schedule(tx, key)


async def resume_schedule(tx: Tx, key: ScheduleKey, by: Operator = APP) -> ScheduleRecord:
    """Fire again, from the next tick on: ticks missed during the pause are not made up for."""
    schedule, now = await hold_schedule(tx, key)
    if schedule.state is not ScheduleState.ACTIVE:
        await _write(tx, _seeded(schedule, now))
        await by.record(tx, "schedule.resume", key, str(schedule.state), str(ScheduleState.ACTIVE))
        tx.notify("schedules")
    return await get_schedule(tx, key)


async def delete_schedule(tx: Tx, key: ScheduleKey, by: Operator = APP) -> None:
    """Delete a schedule and its ticks; its jobs stay. A schedule that code declares returns with its worker."""
    schedule, _ = await hold_schedule(tx, key)
    await tx.one(sql.delete_schedule, tenant=key.tenant, name=key.name)
    await tx.one(sql.delete_ticks, tenant=key.tenant, schedule=key.name)
    await by.record(tx, "schedule.delete", key, _fields(schedule.spec), None)


async def note_error(tx: Tx, key: ScheduleKey, error: str) -> None:
    await tx.one(sql.note_schedule_error, tenant=key.tenant, name=key.name, error=error)


async def prune_ticks(tx: Tx, keep: int) -> int:
    """Delete ticks older than `keep` and before their schedule's last, a page of each; return how many."""
    count = 0
    for tenant, name, before in await tx.all(sql.forget_ticks_before, keep=keep):
        count += len(await tx.all(sql.prune_ticks, tenant=tenant, schedule=name, before=before, n=_PRUNE_PAGE))
    return count


async def _insert(tx: Tx, spec: ScheduleSpec, origin: str, now: int) -> bool:
    first = next_tick(replace(spec.timing, anchor=now), now)
    given = {**spec.key._asdict(), **_fields(spec), "origin": origin, "seed": now, "next_tick": first}
    made = await tx.one(sql.insert_schedule, **given)
    if made is None:
        return False
    counted = await tx.one(sql.count_schedules)
    if counted is not None and counted[0] > MOST:
        raise InvalidInput(f"there are {MOST:,} schedules already; delete some, or let one schedule do more")
    return True


async def _follow_code(tx: Tx, spec: ScheduleSpec) -> bool:
    schedule, now = await hold_schedule(tx, spec.key)
    if schedule.origin == "runtime":
        return False
    kept = {name: getattr(schedule, name) for name in schedule.edited}
    wanted = replace(spec, **_consistent(kept, schedule))
    if not _differences(schedule, wanted):
        return False
    await _store(tx, schedule, wanted, edited=schedule.edited, now=now)
    return True


def _consistent(kept: dict[str, Any], schedule: ScheduleRecord) -> dict[str, Any]:
    """Keep an expression and an interval together: they exclude each other, so one owner has both."""
    if kept.keys() & {"expression", "every"}:
        kept |= {"expression": schedule.expression, "every": schedule.every}
    return kept


async def _store(tx: Tx, old: ScheduleRecord, wanted: ScheduleSpec, *, edited: tuple[str, ...], now: int) -> None:
    new = replace(old, **_fields(wanted), edited=edited)
    if TIMING_FIELDS & set(_differences(old, wanted)) or old.state is ScheduleState.BROKEN:
        paused = old.state is ScheduleState.PAUSED
        new = _seeded(new, now)
        new = replace(new, state=ScheduleState.PAUSED, next_tick=None) if paused else new
    await _write(tx, new)


def _seeded(schedule: ScheduleRecord, now: int) -> ScheduleRecord:
    """Activate a schedule from now on, without past ticks, whichever way the clock was set."""
    seed = max(now, schedule.last_tick)
    first = next_tick(replace(schedule.timing, anchor=seed), seed)
    return replace(schedule, anchor=seed, last_tick=seed, next_tick=first, state=ScheduleState.ACTIVE, last_error=None)


async def _write(tx: Tx, new: ScheduleRecord) -> None:
    row = await tx.one(
        sql.change_schedule,
        **_fields(new.spec),
        tenant=new.tenant,
        name=new.name,
        version=new.version,
        anchor=new.anchor,
        last_tick=new.last_tick,
        next_tick=new.next_tick,
        state=str(new.state),
        edited=json.dumps(new.edited),
        last_error=new.last_error,
    )
    if row is None:
        raise Conflict(f"schedule {new.name!r} was just changed by another caller; look at it and try again")


def _run(tick: int, job_id: str, state: str | None, started_at: int | None, finished_at: int | None) -> ScheduledRun:
    return ScheduledRun(
        tick=instant_of(tick),
        job_id=job_id,
        state=state,
        started_at=instant_of(started_at),
        finished_at=instant_of(finished_at),
    )


def _differences(schedule: ScheduleRecord, wanted: ScheduleSpec) -> list[str]:
    return [name for name in FIELDS if getattr(schedule, name) != getattr(wanted, name)]


def _fields(spec: ScheduleSpec) -> dict[str, Any]:
    fields: dict[str, Value] = {name: getattr(spec, name) for name in FIELDS}
    return fields


def _schedule(row: Row) -> ScheduleRecord:
    fields = list(row[:-1])
    try:
        fields[18] = ScheduleState(row[18])
        fields[21] = tuple(json.loads(row[21]))
    except ValueError as wrong:
        raise Corruption(f"schedule {row[1]} holds what this version does not know: {wrong}") from wrong
    return ScheduleRecord(*fields)
