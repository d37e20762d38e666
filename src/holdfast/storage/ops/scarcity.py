"""The budget or quota that a blocked job waits for, as it stands."""

from __future__ import annotations

from ...errors import NotFound
from ...rules.scarcity import Scarcity
from ..port import Tx
from . import budgets, quotas
from .shortages import shortage_of


async def scarcity_of(tx: Tx, job_id: str) -> Scarcity | None:
    """None where nothing is noted, or no longer."""
    found = await shortage_of(tx, job_id)
    if found is None:
        return None
    tenant, _, name = found.key.partition("\x1f")
    try:
        if found.kind == "budget":
            return Scarcity(found.kind, name, found.asked, budget=await budgets.get(tx, tenant, name))
        return Scarcity(found.kind, name, found.asked, quota=await quotas.get(tx, tenant, name))
    except NotFound:
        return Scarcity(found.kind, name, found.asked)
