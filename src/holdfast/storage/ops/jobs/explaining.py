"""Reads the facts from which a job's state is explained."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ....model.jobs import JobState
from ....model.limits import BreakerRecord
from ....rules.explain import Explanation, QueueStands, Scene, Upstream
from ....rules.explain import explain as decide
from ...port import Tx
from ...statements import sql
from ..budgets.shortages import scarcity_of
from ..limits.breakers import list_breakers
from ..routing.grants import grant_of
from ..routing.routes import route_of
from ..signals.suspension import resting
from ..workers.workers import list_workers
from .queries import clock, get_job

_SHOWN: Final = 5


async def explain(tx: Tx, job_id: str, tenant: str | None = None) -> Explanation:
    """Explain why a job is in its state. For a `tenant`, no job of another tenant is named."""
    job = await get_job(tx, job_id)
    queue = await tx.one(sql.queue_stands, name=job.queue)
    scene = Scene(
        job=job,
        route=await route_of(tx, job),
        queue=QueueStands(*queue) if queue else QueueStands(),
        workers=await list_workers(tx),
        now=await clock(tx),
        breakers={breaker.scope: _shown(breaker, tenant) for breaker in await list_breakers(tx)},
        upstreams=[Upstream(*row) for row in await tx.all(sql.upstreams_of, id=job_id, n=_SHOWN)] if job.flow else [],
        rates=frozenset(row[0] for row in await tx.all(sql.bucket_scopes)),
        scarcity=await scarcity_of(tx, job),
        grant=await grant_of(tx, job_id),
        rest=await resting(tx, job_id) if job.state is JobState.SUSPENDED else None,
    )
    return decide(scene)


def _shown(breaker: BreakerRecord, tenant: str | None) -> BreakerRecord:
    if tenant is None or breaker.trial is None:
        return breaker
    return replace(breaker, trial=("…", *breaker.trial[1:]))
