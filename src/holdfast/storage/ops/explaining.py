"""Gathers what the explanation of a job looks at."""

from __future__ import annotations

from typing import Final

from ...model.job import JobState
from ...rules.explain import Explanation, Scene, Upstream
from ...rules.explain import explain as decide
from ..port import Tx
from ..statements import sql
from .breakers import list_breakers
from .insight import clock, get_job
from .routes import route_of
from .suspension import resting
from .workers import list_workers

_SHOWN: Final = 5


async def explain(tx: Tx, job_id: str) -> Explanation:
    job = await get_job(tx, job_id)
    state = await tx.one(sql.queue_state, name=job.queue)
    scene = Scene(
        job=job,
        route=await route_of(tx, job),
        queue_state=state[0] if state else "active",
        workers=await list_workers(tx),
        now=await clock(tx),
        breakers={breaker.scope: breaker for breaker in await list_breakers(tx)},
        upstreams=[Upstream(*row) for row in await tx.all(sql.upstreams_of, id=job_id, n=_SHOWN)] if job.flow else [],
        rates=frozenset(row[0] for row in await tx.all(sql.bucket_scopes)),
        rest=await resting(tx, job_id) if job.state is JobState.SUSPENDED else None,
    )
    return decide(scene)
