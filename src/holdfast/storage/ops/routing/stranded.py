"""Jobs that could start but that no live worker can run; and queues with a total that no worker serves."""

from __future__ import annotations

from collections.abc import Sequence

from ....model.jobs import JobRecord, JobState
from ....model.routing import Route, Stranded
from ....rules.routing import Reason, missing, task_of
from ...port import Tx
from ...statements import sql
from ..limits.totals import totals
from ..workers.workers import list_workers
from .routes import find_route, special_routes


async def stranded(tx: Tx) -> list[Stranded]:
    """Return stranded jobs by route, each with the first job and what is missing; queues with a total always."""
    waiting, configured = await tx.all(sql.waiting_routes), await totals(tx)
    if not waiting and not configured:
        return []
    workers = await list_workers(tx)
    routes = {route.number: route for route in await special_routes(tx)}
    found: list[Stranded] = []
    idle = sorted(configured.keys() - {queue for _, queue, _ in waiting})
    for number, queue, job_id in [*waiting, *((Route(queue).number, queue, "") for queue in idle)]:
        route = routes.get(number, Route(queue))
        if reason := missing(route, task_of(route), workers):
            found.append(Stranded(queue, job_id or None, reason.code, reason.text))
    return sorted(found, key=lambda item: (item.queue, item.code, item.job or ""))


async def unrunnable(tx: Tx, jobs: Sequence[JobRecord]) -> dict[str, Reason]:
    """Return those of these jobs that wait and that no worker could run."""
    waiting = [job for job in jobs if job.state in (JobState.READY, JobState.BLOCKED)]
    workers = await list_workers(tx) if waiting else []
    routes = {
        number: await find_route(tx, number, queue) for number, queue in {(job.route, job.queue) for job in waiting}
    }
    reasons = {job.id: missing(routes[job.route], job.task, workers) for job in waiting}
    return {job_id: reason for job_id, reason in reasons.items() if reason is not None}
