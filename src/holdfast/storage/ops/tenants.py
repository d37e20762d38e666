"""Ownership by tenant. Another tenant's object does not exist: the error is the same as for an unknown id."""

from __future__ import annotations

import json
from collections.abc import Collection

from ...errors import FlowNotFound, NotFound
from ...model.answers import Count
from ...model.limits import Lane, key_lane
from ..port import Tx
from ..statements import sql


async def require_job(tx: Tx, tenant: str, job_id: str, *, hold: bool = False) -> None:
    """Raise NotFound unless the job is this tenant's. With `hold` it stays so until the transaction ends."""
    row = await tx.one(sql.hold_tenant_of_job if hold else sql.tenant_of_job, id=job_id)
    if row is None or row[0] != tenant:
        raise NotFound("job", job_id)


async def require_flow(tx: Tx, tenant: str, flow_id: str, *, hold: bool = False) -> None:
    """Raise FlowNotFound unless the flow is this tenant's, like `require_job`."""
    row = await tx.one(sql.hold_tenant_of_flow if hold else sql.tenant_of_flow, id=flow_id)
    if row is None or row[0] != tenant:
        raise FlowNotFound(flow_id)


async def require_jobs(tx: Tx, tenant: str, job_ids: Collection[str]) -> None:
    """Raise NotFound, with the first of them, unless all these jobs are this tenant's."""
    own = await owned_of(tx, tenant, job_ids)
    for job_id in job_ids:
        if job_id not in own:
            raise NotFound("job", job_id)


async def tenant_of(tx: Tx, job_id: str) -> str | None:
    """Return the tenant of a job; None if there is no such job."""
    row = await tx.one(sql.tenant_of_job, id=job_id)
    return None if row is None else row[0]


async def counts(tx: Tx, tenant: str) -> list[Count]:
    """Count a tenant's jobs in each state of each queue."""
    return [Count(queue, label, int(jobs)) for queue, label, jobs in await tx.all(sql.count_of_tenant, tenant=tenant)]


async def lanes_of(tx: Tx, tenant: str, n: int = 1_000) -> list[Lane]:
    """Return the limits of a tenant's own concurrency keys, and how much of them is in use."""
    rows = await tx.all(sql.lanes_of_tenant, prefix=key_lane(tenant, ""), n=n)
    return [Lane(key, bool(standing), *rest) for key, standing, *rest in rows]


async def owned_of(tx: Tx, tenant: str | None, job_ids: Collection[str]) -> set[str]:
    """Return those of these jobs that are this tenant's; with None all that exist."""
    rows = await tx.all(sql.tenants_of_jobs, ids=json.dumps(list(job_ids)))
    return {id for id, whose in rows if tenant in (None, whose)}


async def owned_flows_of(tx: Tx, tenant: str | None, flow_ids: Collection[str]) -> set[str]:
    """Return those of these flows that are this tenant's; with None all that exist."""
    rows = await tx.all(sql.tenants_of_flows, ids=json.dumps(list(flow_ids)))
    return {id for id, whose in rows if tenant in (None, whose)}
