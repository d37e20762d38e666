"""Quotas: so many within any window, so many at once. Admission is idempotent by its holder, until the window ends."""

from __future__ import annotations

from typing import Final

from ...clock import SECOND
from ...errors import QuotaNotFound
from ...model.budget import Admission, Admitted, AlreadyAdmitted, ConcurrencyExceeded, Quota, RateExceeded
from ..port import Row, Tx
from ..statements import sql
from . import shortages
from .accounts import key_of

PAGE: Final = 500
_HURRIED: Final = 10_000
HELD: Final = 3_600 * SECOND
"""How long an admission without a job and without a window counts as active, where nobody releases it."""


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
    """Make a quota or change it; False if it is so already. What an operator set is not changed by code."""
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
        await shortages.wake(tx, [row[0]])
        await _hurry(tx, name)
    return row is not None


async def _hurry(tx: Tx, name: str) -> None:
    """Whoever was told to come back when the window has room asks again: it may have other bounds now."""
    for queue in {row[0] for row in await tx.all(sql.hurry_quota, name=name, n=_HURRIED)}:
        tx.ring(f"queue:{queue}")


async def lock(tx: Tx, tenant: str, name: str) -> None:
    """Until the commit nobody else changes it."""
    await tx.one(sql.lock_quota, key=key_of(tenant, name))


async def admit(
    tx: Tx, tenant: str, name: str, holder: str, run: tuple[str, int] | None = None, *, shares: bool = True
) -> Admission:
    """Let one more in, or say why not. A `run`, a job and its epoch, is active only while it lasts."""
    key = await find(tx, tenant, name, shares=shares)
    answer = await _answer(tx, key, holder, run)
    refused = isinstance(answer, RateExceeded | ConcurrencyExceeded)
    if not isinstance(answer, AlreadyAdmitted):
        await tx.one(sql.count_admission, key=key, admitted=int(not refused), refused=int(refused))
    return answer


async def release(tx: Tx, tenant: str, name: str, holder: str, *, shares: bool = True) -> bool:
    """It is no longer active; False if it was not. In the window it counts until that ends."""
    key = await find(tx, tenant, name, shares=shares)
    await tx.one(sql.lock_quota, key=key)
    released = await tx.one(sql.end_admission, quota=key, holder=holder) is not None
    if released:
        await shortages.wake(tx, [key])
    return released


async def find(tx: Tx, tenant: str, name: str, *, shares: bool = True) -> str:
    """The key of the quota that a tenant means by a name: its own, or else with `shares` that of no tenant."""
    row = await tx.one(sql.find_quota, own=key_of(tenant, name), shared=key_of("" if shares else tenant, name))
    if row is None:
        raise QuotaNotFound(name)
    return str(row[0])


async def remove(tx: Tx, tenant: str, name: str) -> bool:
    """Forget a quota; False if there was none. Jobs that wait for it go on, and are told that it is gone."""
    key = key_of(tenant, name)
    await tx.one(sql.lock_quota, key=key)
    if await tx.one(sql.delete_quota, key=key) is None:
        return False
    await tx.one(sql.delete_admissions, key=key)
    await shortages.wake(tx, [key])
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
    """Admissions whose window is over."""
    return len(await tx.all(sql.expired_admissions, n=n))


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
    # A job's own lasts as long as it runs, beyond its window; without a window the row is of no further use.
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
    waiting = await tx.one(sql.count_short_of, key=key)
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
    """Whether an earlier admission still says something: in its window, or while it is active."""
    at, _, _, _, active, now = before
    return bool(active) or (span is not None and at > now - span)
