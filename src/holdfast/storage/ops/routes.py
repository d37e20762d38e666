"""Routes that ask for more than their queue: rows by which workers find them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ...model.job import JobRecord
from ...model.route import Route
from ..port import Tx
from ..statements import sql


async def insert_routes(tx: Tx, routes: Iterable[Route]) -> None:
    """Make special routes known; a plain one follows from its queue's name."""
    for route in {route for route in routes if not route.is_plain}:
        await tx.one(
            sql.insert_route,
            id=route.number,
            queue=route.queue,
            requires=route.requires_text,
            affinity=route.affinity,
            version=route.version,
        )


async def special_routes(tx: Tx) -> list[Route]:
    """Every route that asks for more than its queue."""
    rows = await tx.all(sql.special_routes)
    return [_route(*row) for row in rows]


async def route_of(tx: Tx, job: JobRecord) -> Route:
    """What a job asks of a worker."""
    return await find_route(tx, job.route, job.queue)


async def find_route(tx: Tx, number: int, queue: str) -> Route:
    """The route of that number, which is the plain one of its queue where it has no row."""
    row = await tx.one(sql.get_route, id=number)
    return _route(*row) if row else Route(queue)


def _route(queue: str, requires: str, affinity: str, version: str) -> Route:
    return Route(queue, frozenset(json.loads(requires)), affinity, version)
