"""Health of webhook endpoints: the outcomes of the newest deliveries, and the states of their breakers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from ....model.limits import Breaker
from ....model.webhooks import Health
from ...port import Tx
from ...statements import sql
from .endpoints import scope_of


async def health_of(tx: Tx, ids: Sequence[str], tenant: str | None, n: int) -> dict[str, Health]:
    """Return the health of each endpoint, by its newest `n` deliveries. Unknown or other tenants' ones are left out."""
    asked = json.dumps(list(ids))
    found: dict[str, Health] = {}
    for id, threshold, open_for, failures, opened, until, now in await tx.all(
        sql.breakers_of_webhooks, ids=asked, tenant=tenant
    ):
        stands = Breaker(
            scope=scope_of(id), threshold=threshold, open_for=open_for, opened_at=opened, open_until=until, now=now
        )
        found[id] = Health(stands.state, until, failures)
    for id, at, state in await tx.all(sql.newest_deliveries, ids=asked, tenant=tenant, last=n - 1):
        known = found.get(id, Health())
        newest = at if known.newest_at is None else known.newest_at
        found[id] = replace(known, states=(*known.states, state), newest_at=newest)
    return found
