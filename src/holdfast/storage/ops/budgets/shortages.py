"""Jobs that are blocked until a budget has room for them, and how they are unblocked.

Unblocking a job is only a hint: it reserves again before it runs. So nothing is locked here to find out which jobs
fit, and a row that another transaction has locked is left to the next check.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ....errors import NotFound
from ....model.budgets import BUDGET_EXHAUSTED, QUOTA
from ....model.jobs import JobRecord
from ....model.limits import QUOTA_LANE
from ....rules.budgets import Scarcity, fitting
from ...port import Tx
from ...statements import sql
from ..limits import quotas
from . import budgets
from .accounts import read

PAGE: Final = 500
# Jobs checked by each release. Those behind them are found when many in front do not fit.
_FIRST: Final = 100
_MANY: Final = 10_000


@dataclass(frozen=True, slots=True)
class Shortage:
    """A blocked job's requirement. `asked` are millionths by dimension."""

    kind: str
    key: str
    asked: Mapping[str, int]
    since: int


async def note(tx: Tx, ids: Sequence[str], budget: str, asked: Mapping[str, int]) -> None:
    """Record that a budget refused these jobs, which are blocked or about to be."""
    await tx.one(sql.put_shortages, ids=json.dumps(ids), key=budget, asked=json.dumps(asked))


async def wake(tx: Tx, keys: Collection[str]) -> int:
    """Unblock the jobs that now fit into these budgets; return how many."""
    if not keys:
        return 0
    short = [row[0] for row in await tx.all(sql.keys_with_shortage, keys=json.dumps(sorted(keys)))]
    count = 0
    for key in sorted(short):
        count += await release_waiting(tx, await who_fits(tx, key, n=_FIRST))
    return count


async def look_again(tx: Tx, ids: Sequence[str]) -> None:
    """Check jobs that have just been blocked: room made since their refusal did not consider them."""
    for job_id in ids:
        if found := await shortage_of(tx, job_id):
            await wake(tx, [found.key])


async def who_fits(tx: Tx, key: str, *, n: int = _MANY) -> list[str]:
    """Return the jobs that would fit into this budget now. The budget is read once, however many wait."""
    rows = await tx.all(sql.short_of, key=key, n=n)
    if not rows:
        return []
    account = (await read(tx, [key])).get(key)
    if account is not None:
        return list(fitting([(job_id, json.loads(asked)) for job_id, asked in rows], account.current.lines))
    # It was deleted, and the jobs get an error; or it is a quota, for which former versions blocked jobs.
    return [row[0] for row in rows]


async def release_waiting(tx: Tx, ids: Sequence[str]) -> int:
    """Make blocked jobs ready; return how many."""
    if not ids:
        return 0
    rows = await tx.all(sql.unblock_short, ids=json.dumps(ids))
    if rows:
        await tx.one(sql.drop_shortages, ids=json.dumps([row[0] for row in rows]))
    for queue in {row[1] for row in rows}:
        tx.notify(f"queue:{queue}")
    return len(rows)


async def shortage_of(tx: Tx, job_id: str) -> Shortage | None:
    row = await tx.one(sql.shortage_of, job_id=job_id)
    return None if row is None else Shortage(row[0], row[1], json.loads(row[2]), row[3])


async def what_is_short(tx: Tx) -> list[str]:
    """Return the budgets and quotas that jobs wait for."""
    return [row[1] for row in await tx.all(sql.what_is_short, n=PAGE)]


async def has_leftovers(tx: Tx) -> bool:
    """Return whether there are records of jobs that no longer wait."""
    return await tx.one(sql.over_shortages) is not None


async def drop_leftovers(tx: Tx) -> int:
    return len(await tx.all(sql.drop_over_shortages, n=PAGE))


async def what_has_expired(tx: Tx) -> tuple[bool, bool]:
    """Return whether keys of spends have expired, and whether admissions have."""
    row = await tx.one(sql.what_is_spent)
    return (bool(row[0]), bool(row[1])) if row else (False, False)


async def scarcity_of(tx: Tx, job: JobRecord) -> Scarcity | None:
    """Return the budget or quota that a job waits for; None where it waits for neither."""
    if job.lane is not None and job.lane.startswith(QUOTA_LANE):
        return await _quota(tx, job.lane.removeprefix(QUOTA_LANE))
    found = await shortage_of(tx, job.id) if job.reason in (BUDGET_EXHAUSTED, QUOTA) else None
    if found is None:
        return None
    tenant, _, name = found.key.partition("\x1f")
    try:
        return Scarcity(found.kind, name, found.asked, budget=await budgets.get(tx, tenant, name))
    except NotFound:
        return Scarcity(found.kind, name, found.asked)


async def _quota(tx: Tx, key: str) -> Scarcity:
    tenant, _, name = key.partition("\x1f")
    try:
        quota = await quotas.get(tx, tenant, name)
    except NotFound:
        return Scarcity(QUOTA, name, {})
    return Scarcity(QUOTA, name, {}, quota=quota, opens_in=await quotas.opens_in(tx, key))
