"""Quotas: a maximum per window and at once. Admission is idempotent per holder, until the window ends."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ....clock import SECOND
from ....errors import QuotaNotFound
from ....model.budgets import Admission, Admitted, AlreadyAdmitted, ConcurrencyExceeded, Quota, RateExceeded
from ....model.jobs import Claimed
from ....model.limits import QUOTA_LANE, quota_lane
from ....rules.limits import Candidate, QuotaRoom
from ...port import Row, Tx
from ...statements import sql
from ..budgets.accounts import key_of
from .parking import park_alike, unpark

PAGE: Final = 500
_MANY: Final = 10_000
HELD: Final = 3_600 * SECOND
"""The time for which an admission without a job and without a window counts as active, if it is not released."""


async def ensure(
    tx: Tx,
    tenant: str,
    name: str,
    *,
    allowed: int | None,
    span: int | None,
    concurrency: int | None,
    origin: str,
) -> bool:
    """Create or change a quota; False if nothing changes. Code does not change what an operator set."""
    row = await tx.one(
        sql.ensure_quota,
        key=key_of(tenant, name),
        tenant=tenant,
        name=name,
        allowed=allowed,
        span=span,
        concurrency=concurrency,
        origin=origin,
    )
    if row is not None:
        await unpark_all(tx, [quota_lane(row[0])])
    return row is not None


async def lock(tx: Tx, tenant: str, name: str) -> None:
    """Lock a quota until the commit."""
    await tx.one(sql.lock_quota, key=key_of(tenant, name))


async def admit(
    tx: Tx, tenant: str, name: str, holder: str, run: tuple[str, int] | None = None, *, shares: bool = True
) -> Admission:
    """Admit one more, or say why not. A `run`, a job and its epoch, is active only while it lasts."""
    key = await find(tx, tenant, name, shares=shares)
    answer = await _answer(tx, key, holder, run)
    refused = isinstance(answer, RateExceeded | ConcurrencyExceeded)
    if not isinstance(answer, AlreadyAdmitted):
        await tx.one(sql.count_admission, key=key, admitted=int(not refused), refused=int(refused))
    return answer


async def release(tx: Tx, tenant: str, name: str, holder: str, *, shares: bool = True) -> bool:
    """End an active admission; False if it was not active. It still counts in its window until that ends."""
    key = await find(tx, tenant, name, shares=shares)
    await tx.one(sql.lock_quota, key=key)
    released = await tx.one(sql.end_admission, quota=key, holder=holder) is not None
    if released:
        await unpark_all(tx, [quota_lane(key)])
    return released


async def find(tx: Tx, tenant: str, name: str, *, shares: bool = True) -> str:
    """Find the key of the quota that a tenant means by a name: its own, or else with `shares` that of no tenant."""
    key = await _key(tx, tenant, name, shares=shares)
    if key is None:
        raise QuotaNotFound(name)
    return key


async def _key(tx: Tx, tenant: str, name: str, *, shares: bool = True) -> str | None:
    row = await tx.one(sql.find_quota, own=key_of(tenant, name), shared=key_of("" if shares else tenant, name))
    return None if row is None else str(row[0])


async def remove(tx: Tx, tenant: str, name: str) -> bool:
    """Delete a quota; False if there was none. Jobs that wait for it resume, and get QuotaNotFound at their start."""
    key = key_of(tenant, name)
    await tx.one(sql.lock_quota, key=key)
    if await tx.one(sql.delete_quota, key=key) is None:
        return False
    await tx.one(sql.delete_admissions, key=key)
    await unpark_all(tx, [quota_lane(key)])
    return True


async def get(tx: Tx, tenant: str, name: str) -> Quota:
    found = await _view(tx, key_of(tenant, name))
    if found is None:
        raise QuotaNotFound(name)
    return found


async def list_quotas(tx: Tx, tenant: str | None, *, after: str = "", limit: int = PAGE) -> list[Quota]:
    rows = await tx.all(sql.list_quotas, tenant=tenant, after=after, n=limit)
    views = [await _view(tx, row[0]) for row in rows]
    return [view for view in views if view is not None]


async def prune_admissions(tx: Tx, n: int) -> int:
    """Delete admissions whose window is over."""
    return len(await tx.all(sql.expired_admissions, n=n))


@dataclass(frozen=True, slots=True)
class Rooms:
    """The room in locked quotas, by key and by the id of each job that needs it."""

    by_key: Mapping[str, QuotaRoom]
    by_job: Mapping[str, QuotaRoom]


async def lock_rooms(tx: Tx, asking: Sequence[Candidate], emptier: Collection[str]) -> Rooms:
    """Lock the quotas of claimed jobs, and those that runs have just left and other jobs wait for.

    One that does not exist is left out: its jobs get QuotaNotFound when they start.
    """
    named = {(one.job.tenant, one.quota or "", one.shares_quota) for one in asking}
    keys = {(tenant, name, shares): await _key(tx, tenant, name, shares=shares) for tenant, name, shares in named}
    jobs: dict[str, list[str]] = {}
    for one in asking:
        if (key := keys[one.job.tenant, one.quota or "", one.shares_quota]) is not None:
            jobs.setdefault(key, []).append(one.job.id)
    by_key: dict[str, QuotaRoom] = {}
    for key in sorted({*jobs, *emptier}):
        if await tx.one(sql.lock_quota, key=key) and (key in jobs or await _is_awaited(tx, key)):
            by_key[key] = await _room(tx, key, jobs.get(key, ()))
    return Rooms(by_key, {job_id: by_key[key] for key, ids in jobs.items() if key in by_key for job_id in ids})


async def enter(tx: Tx, rooms: Rooms, jobs: Sequence[Claimed]) -> None:
    """Admit claimed jobs to their quotas, which have room; the repeated admission at the start changes nothing.

    Jobs that also reserve in budgets are admitted when they start: both or neither.
    """
    for job in jobs:
        room = rooms.by_job.get(job.id)
        if room is None or '"reserve"' in (job.limits or ""):
            continue
        key, again = room.lane.removeprefix(QUOTA_LANE), job.id in room.inside
        await tx.one(sql.mark_run, id=job.id, epoch=job.epoch)
        await _put(tx, key, job.id, (job.id, job.epoch), room.span, again=again)
        if not again:
            await tx.one(sql.count_admission, key=key, admitted=1, refused=0)


async def note_parked(tx: Tx, rooms: Rooms, emptier: Collection[str], parked: Mapping[str, Sequence[Claimed]]) -> None:
    """Count the jobs parked behind quotas, by lane, including those behind them that need the same.

    Where a run has left and no job was parked, others take its place.
    """
    for key, room in rooms.by_key.items():
        if jobs := parked.get(room.lane):
            alike = {(job.route, job.limits, job.tenant): job for job in jobs}
            others = [len(await park_alike(tx, job, room.lane)) for job in alike.values()]
            await tx.one(sql.count_admission, key=key, admitted=0, refused=len(jobs) + sum(others))
            # Workers poll again when the window has room for them.
            for queue in {job.queue for job in jobs}:
                tx.notify(f"queue:{queue}")
        elif key in emptier:
            await _unpark(tx, room)


async def unpark_all(tx: Tx, lanes: Iterable[str]) -> int:
    """Unpark as many jobs in lanes of quotas as each has room for now; one unparked too early is parked again."""
    count = 0
    for lane in lanes:
        if lane.startswith(QUOTA_LANE):
            count += await _unpark(tx, await _room(tx, lane.removeprefix(QUOTA_LANE)))
    return count


async def next_room(tx: Tx, lanes: Iterable[str]) -> int | None:
    """Return the microseconds until a parked job finds room in its quota's window; None where time brings none."""
    waits: list[int] = []
    for lane in lanes:
        if lane.startswith(QUOTA_LANE):
            key = lane.removeprefix(QUOTA_LANE)
            room = await _room(tx, key)
            if room.least is None or room.least > 0:
                waits.append(0)
            elif room.active is None or room.active > 0:
                waits.append(await opens_in(tx, key))
    return min(waits, default=None)


async def opens_in(tx: Tx, key: str) -> int:
    """Return the microseconds until the window of a quota has room."""
    row = await tx.one(sql.get_quota, key=key)
    if row is None or row[4] is None:
        return 0
    full = await tx.one(sql.room_in_window, quota=key, span=row[4], most=row[3] - 1)
    return 0 if full is None else max(1, int(full[0]))


async def _unpark(tx: Tx, room: QuotaRoom) -> int:
    n = _MANY if room.least is None else room.least
    return await unpark(tx, room.lane, n) if n > 0 else 0


async def _room(tx: Tx, key: str, jobs: Sequence[str] = ()) -> QuotaRoom:
    """Return the room of a quota; unlimited where it was deleted: its jobs get QuotaNotFound when they start."""
    row = await tx.one(sql.get_quota, key=key)
    if row is None:
        return QuotaRoom(quota_lane(key), None, None)
    _, _, _, allowed, span, concurrency, _, _, _, used, active = row
    inside = await tx.all(sql.admitted_before, quota=key, span=span, holders=json.dumps(jobs)) if span and jobs else []
    return QuotaRoom(
        quota_lane(key),
        None if allowed is None else allowed - used,
        None if concurrency is None else concurrency - active,
        span,
        frozenset(row[0] for row in inside),
    )


async def _is_awaited(tx: Tx, key: str) -> bool:
    return await tx.one(sql.first_parked, lane=quota_lane(key)) is not None


async def _answer(tx: Tx, key: str, holder: str, run: tuple[str, int] | None) -> Admission:
    row = await tx.one(sql.lock_quota, key=key)
    if row is None:
        raise QuotaNotFound(key.partition("\x1f")[2])
    _, allowed, span, concurrency = row
    before = await tx.one(sql.get_admission, quota=key, holder=holder)
    if before is not None and not _counts(before, span):
        before = None
    if before is not None and before[4] and run in (None, (before[2], before[3])):
        return AlreadyAdmitted()
    await tx.one(sql.sweep_window, quota=key)
    if before is None and span is not None:
        full = await tx.one(sql.room_in_window, quota=key, span=span, most=allowed - 1)
        if full is not None:
            return RateExceeded(max(1, int(full[0])) / SECOND)
    if concurrency is not None and (active := await _active(tx, key)) >= concurrency:
        return ConcurrencyExceeded(active)
    await _put(tx, key, holder, run, span, again=before is not None)
    return Admitted() if before is None else AlreadyAdmitted()


async def _put(tx: Tx, key: str, holder: str, run: tuple[str, int] | None, span: int | None, *, again: bool) -> None:
    job_id, epoch = run or (None, None)
    # A run's admission lasts as long as it runs, beyond its window; without a window the row is not needed further.
    kept = span if span is not None else 0 if run else HELD
    statement = sql.take_again if again else sql.put_admission
    await tx.one(statement, quota=key, holder=holder, job_id=job_id, epoch=epoch, kept=0 if again and run else kept)


async def _active(tx: Tx, key: str) -> int:
    row = await tx.one(sql.get_quota, key=key)
    return int(row[10]) if row else 0


async def _view(tx: Tx, key: str) -> Quota | None:
    row = await tx.one(sql.get_quota, key=key)
    if row is None:
        return None
    _, tenant, name, allowed, span, concurrency, admitted, refused, origin, used, active = row
    waiting = await tx.one(sql.count_parked_in, lane=quota_lane(key))
    return Quota(
        tenant=tenant,
        name=name,
        limit=allowed,
        window=None if span is None else span / SECOND,
        concurrency=concurrency,
        used=used,
        active=active,
        admitted=admitted,
        refused=refused,
        origin=origin,
        blocked=waiting[0] if waiting else 0,
    )


def _counts(before: Row, span: int | None) -> bool:
    """Return whether an earlier admission still counts: in its window, or while it is active."""
    at, _, _, _, active, now = before
    return bool(active) or (span is not None and at > now - span)
