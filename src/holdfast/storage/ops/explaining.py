"""Gathers what the explanation of a job looks at."""

from __future__ import annotations

from ...rules.explain import Explanation, Scene
from ...rules.explain import explain as decide
from ..port import Tx
from ..statements import sql
from .insight import clock, get_job
from .routes import route_of
from .workers import list_workers


async def explain(tx: Tx, job_id: str) -> Explanation:
    job = await get_job(tx, job_id)
    state = await tx.one(sql.queue_state, name=job.queue)
    scene = Scene(
        job=job,
        route=await route_of(tx, job),
        queue_state=state[0] if state else "active",
        workers=await list_workers(tx),
        now=await clock(tx),
        rates=frozenset(row[0] for row in await tx.all(sql.bucket_scopes)),
    )
    return decide(scene)
