"""Grants: for a while only one named worker may claim a job. Meanwhile the job's route requires that name.

A grant ends when it is used, expires or is withdrawn; each restores the job's earlier route. An expired grant is
ended by the first transaction that finds it. The job is locked before its grant, as a claim does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from ....errors import IllegalMove
from ....model.jobs import JobState
from ....model.routing import Grant, Route
from ....rules.routing import worker_capability
from ...port import Row, Tx
from ...statements import sql
from ..jobs.queries import get_job
from .routes import find_route, insert_routes

_PAGE: Final = 500
_GRANTABLE: Final = (JobState.READY, JobState.BLOCKED, JobState.SUSPENDED)


async def grant(tx: Tx, job_id: str, worker: str, expires: int) -> Grant:
    """Let only `worker` claim the job for that many µs. An existing grant is replaced."""
    held = await _hold(tx, job_id)
    if held is None:
        await get_job(tx, job_id)
        raise IllegalMove(f"job {job_id} was made this moment; repeat the call")
    number, queue, state = held
    if state not in _GRANTABLE:
        raise IllegalMove(
            f"job {job_id} is {state}; only one that waits can be granted to a worker; cancel or retry it first"
        )
    before = await _end(tx, [job_id])
    route = before.get(job_id) or await find_route(tx, number, queue)
    granted = route.requiring(worker_capability(worker))
    await tx.one(sql.set_route, id=job_id, route=granted.number)
    row = await tx.one(sql.write_grant, job_id=job_id, worker=worker, expires=expires, **_columns(granted))
    assert row is not None
    tx.notify(f"queue:{queue}")
    return _grant(row)


async def withdraw(tx: Tx, job_id: str) -> bool:
    """Open the job to every worker now; False where there was no grant."""
    held = await _hold(tx, job_id)
    if held is None:
        await get_job(tx, job_id)
        return False
    if not await _end(tx, [job_id]):
        return False
    tx.notify(f"queue:{held[1]}")
    return True


async def expire_grants(tx: Tx) -> int:
    """End the expired grants; return how many."""
    ended = 0
    # Every transaction locks jobs in the order of their ids.
    for (job_id,) in sorted(await tx.all(sql.expired_grants, n=_PAGE)):
        held = await _hold(tx, job_id)
        # Read again under the lock: it may have been granted again.
        if await tx.one(sql.expired_grant, job_id=job_id) is not None:
            ended += 1
            await _end(tx, [job_id])
            if held is not None:
                tx.notify(f"queue:{held[1]}")
    return ended


async def use_grants(tx: Tx, ids: Sequence[str]) -> dict[str, int]:
    """End the grants of jobs that have just been claimed; return the routes restored to them."""
    return {job_id: route.number for job_id, route in (await _end(tx, ids)).items()}


async def own_route(tx: Tx, job_id: str) -> int | None:
    """Return the number of a job's route apart from a grant; None where there is no such job.

    The job is locked: no grant is made or ended before the transaction ends.
    """
    held = await _hold(tx, job_id)
    if held is None:
        return None
    granted = await tx.one(sql.granted_route, job_id=job_id)
    return (await _route_before(tx, held, granted)).number if granted else int(held[0])


async def list_grants(tx: Tx, tenant: str | None = None, n: int = 1000) -> list[Grant]:
    """List the grants in force and those expired but not ended yet, the first to expire first."""
    return [_grant(row) for row in await tx.all(sql.list_grants, tenant=tenant, n=n)]


async def grant_of(tx: Tx, job_id: str) -> Grant | None:
    row = await tx.one(sql.get_grant, job_id=job_id)
    return _grant(row) if row else None


async def _end(tx: Tx, ids: Sequence[str]) -> dict[str, Route]:
    """Remove grants of locked jobs, and restore and return the jobs' earlier routes."""
    restored: dict[str, Route] = {}
    for job_id, *granted in await tx.all(sql.take_grants, ids=json.dumps(list(ids))):
        held = await _hold(tx, job_id)
        if held is None:
            continue  # it was deleted
        restored[job_id] = await _route_before(tx, held, granted)
        ended = JobState(held[2]).is_terminal
        await tx.one(sql.set_ended_route if ended else sql.set_route, id=job_id, route=restored[job_id].number)
    return restored


async def _hold(tx: Tx, job_id: str) -> Row | None:
    """Lock a job; return its route's number, its queue and its state."""
    # The third look is for a job that ended and was retried between the first two.
    for statement in (sql.hold_route, sql.hold_ended_route, sql.hold_route):
        if held := await tx.one(statement, id=job_id):
            return held
    return None


async def _route_before(tx: Tx, held: Row, granted: Sequence[Any]) -> Route:
    """Return the route that a held job had before its grant. Workers can find it."""
    worker, number, *columns = granted
    # A job that was moved to another queue since then has a route of its own there.
    route = _route(*columns) if held[0] == number else await find_route(tx, held[0], held[1])
    before = route.without(worker_capability(worker))
    await insert_routes(tx, [before])
    return before


def _columns(route: Route) -> dict[str, str | int]:
    return {
        "route": route.number, "queue": route.queue, "requires": route.requires_text, "affinity": route.affinity,
        "version": route.version,
    }  # fmt: skip


def _route(queue: str, requires: str, affinity: str, version: str) -> Route:
    return Route(queue, frozenset(json.loads(requires)), affinity, version)


def _grant(row: Row) -> Grant:
    job_id, worker, granted_at, expires_at, is_expired = row
    return Grant(job_id, worker, granted_at, expires_at, bool(is_expired))
