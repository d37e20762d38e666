"""Routes that require more than their queue: rows by which workers find them.

A claim names every route its worker serves, so routes that no live job has are hidden from workers, and deleted when
no job at all has them. An enqueue that began before its route was marked idle may commit after that; since a route is
hidden only an hour later, the next comparison finds that job first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ....clock import SECOND
from ....model.jobs import JobRecord
from ....model.routing import Route
from ...port import Tx
from ...statements import sql

HIDDEN_AFTER: Final = 3600 * SECOND
DELETED_AFTER: Final = 86_400 * SECOND


@dataclass(frozen=True, slots=True)
class Usage:
    """Numbers of routes: those that no live job has now, those that one has again, and those that no job has."""

    left: Sequence[int] = ()
    used: Sequence[int] = ()
    over: Sequence[int] = ()


async def insert_routes(tx: Tx, routes: Iterable[Route]) -> None:
    """Store special routes; a plain one follows from its queue's name."""
    for route in {route for route in routes if not route.is_plain}:
        known = await tx.one(sql.route_idle_since, id=route.number)
        if known is None:
            await _insert(tx, route)
        elif known[0] is not None:
            await tx.one(sql.use_route, id=route.number)


async def _insert(tx: Tx, route: Route) -> None:
    await tx.one(
        sql.insert_route,
        id=route.number,
        queue=route.queue,
        requires=route.requires_text,
        affinity=route.affinity,
        version=route.version,
    )


async def special_routes(tx: Tx) -> list[Route]:
    """Return every route in use that requires more than its queue."""
    rows = await tx.all(sql.special_routes, kept=HIDDEN_AFTER)
    return [_route(*row) for row in rows]


async def usage(tx: Tx) -> Usage:
    """Compare the marks of special routes with the existing jobs."""
    marks = await tx.all(sql.route_marks)
    if not marks:
        return Usage()
    live = {row[0] for row in await tx.all(sql.live_routes)}
    return Usage(
        left=[id for id, idle_since in marks if idle_since is None and id not in live],
        used=[id for id, idle_since in marks if idle_since is not None and id in live],
        over=[row[0] for row in await tx.all(sql.routes_without_jobs, kept=DELETED_AFTER)]
        if any(idle_since is not None for _, idle_since in marks)
        else [],
    )


async def note_usage(tx: Tx, usage: Usage) -> None:
    """Mark routes by their usage, and delete those that no job has."""
    for id in usage.used:
        await tx.one(sql.use_route, id=id)
    for id in usage.left:
        await tx.one(sql.leave_route, id=id)
    for id in usage.over:
        await tx.one(sql.delete_route, id=id, kept=DELETED_AFTER)


async def route_of(tx: Tx, job: JobRecord) -> Route:
    """Return a job's route."""
    return await find_route(tx, job.route, job.queue)


async def find_route(tx: Tx, number: int, queue: str) -> Route:
    """Return the route of that number; the plain one of its queue where it has no row."""
    row = await tx.one(sql.get_route, id=number)
    return _route(*row) if row else Route(queue)


def _route(queue: str, requires: str, affinity: str, version: str) -> Route:
    return Route(queue, frozenset(json.loads(requires)), affinity, version)
