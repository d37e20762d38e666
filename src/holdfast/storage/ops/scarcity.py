"""The budget or quota that a job waits for, as it stands."""

from __future__ import annotations

from ...errors import NotFound
from ...model.budget import BUDGET_EXHAUSTED, QUOTA
from ...model.job import JobRecord
from ...model.limits import QUOTA_LANE
from ...rules.scarcity import Scarcity
from ..port import Tx
from . import budgets, quotas
from .shortages import shortage_of


async def scarcity_of(tx: Tx, job: JobRecord) -> Scarcity | None:
    """None where it waits for neither."""
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
