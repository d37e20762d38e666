"""Claims of a worker with special routes: it keeps to few affinities, and uses up grants."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from ....model.jobs import Claimed
from ....rules.routing import Head, Hold, choose
from ...port import Tx
from ...statements import sql
from .grants import use_grants


@dataclass(frozen=True, slots=True)
class Routing:
    """The facts that a claim needs about a worker's special routes."""

    hold: Hold
    affinities: Mapping[int, str]
    """The worker's routes with an affinity, by number."""
    own: frozenset[int]
    """Routes that only workers of its name serve."""
    known: tuple[str, ...]
    """Affinities that the store has recorded as loaded there."""


class Choices:
    """The affinities that a worker claims from, one after the other until its slots are taken."""

    def __init__(self, hold: Hold, affinities: Mapping[int, str], heads: Sequence[Head]) -> None:
        self._hold = hold
        self._affinities = affinities
        self._heads = heads
        self._allowed: Collection[str] = ()

    def next(self) -> bool:
        """Choose the next affinities; False where there are none."""
        self._allowed = choose(self._hold, self._heads)
        self._heads = [head for head in self._heads if head.affinity not in self._allowed]
        return bool(self._allowed)

    def take(self, claimed: Sequence[Claimed]) -> None:
        """Record the jobs claimed from them. None means that other workers claimed those jobs a moment before."""
        self._hold = self._hold.using(self.affinities_of(claimed))

    @property
    def is_over(self) -> bool:
        return self._hold.is_full or not self._heads

    @property
    def others_wait(self) -> bool:
        """Return whether there are jobs of affinities for which the worker has no slot now."""
        return any(head.affinity not in self._hold.in_use for head in self._heads)

    def only(self, routes: str) -> str:
        """Keep of these routes those without an affinity and those of the chosen affinities.

        From the latter no job is claimed whose priority is below that of a job that is left out.
        """
        least: dict[int, int] = {}
        for head in self._heads:
            least[head.tier] = max(head.priority, least.get(head.tier, head.priority))
        found = [route for route in json.loads(routes) if self._is_open(route["route"])]
        for route in found:
            if route["route"] in self._affinities and route["tier"] in least:
                route["least"] = least[route["tier"]]
        return json.dumps(found)

    def affinities_of(self, jobs: Sequence[Claimed]) -> list[str]:
        return [self._affinities[job.route] for job in jobs if job.route in self._affinities]

    def _is_open(self, route: int) -> bool:
        affinity = self._affinities.get(route)
        return affinity is None or affinity in self._allowed


async def look_ahead(tx: Tx, owner: str, routing: Routing, routes: str, *, suspects: bool) -> Choices:
    """Read the first job of each route with an affinity."""
    wanted = [route for route in json.loads(routes) if route["route"] in routing.affinities]
    rows = await tx.all(sql.affinity_heads, routes=json.dumps(wanted)) if wanted else []
    heads = [Head(routing.affinities[route], *rest) for route, due, *rest in rows if due == 1 or suspects]
    hold = routing.hold
    if hold.wait is not None and len(heads) > 1:
        others = await tx.all(sql.loaded_elsewhere, id=owner)
        hold = replace(hold, elsewhere=frozenset(name for (text,) in others for name in json.loads(text)))
    return Choices(hold, routing.affinities, heads)


async def note(tx: Tx, owner: str, routing: Routing, claimed: list[Claimed]) -> list[Claimed]:
    """Record after a claim the worker's loaded affinities and used grants; return the jobs with their own routes."""
    used = [routing.affinities[job.route] for job in claimed if job.route in routing.affinities]
    resident = routing.hold.using(used).resident
    if set(resident) != set(routing.known):
        await tx.one(sql.set_resident, id=owner, resident=json.dumps(resident))
    if not (granted := [job.id for job in claimed if job.route in routing.own]):
        return claimed
    routes = await use_grants(tx, granted)
    return [structs.replace(job, route=routes[job.id]) if job.id in routes else job for job in claimed]
