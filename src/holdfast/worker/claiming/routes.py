"""Routes that a worker serves: the plain route of each of its queues, and the special ones it is capable of."""

from __future__ import annotations

import random as _random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...model.routing import Route
from ...rules.routing import is_for_one, task_capability
from ...rules.versions import fits
from ...storage.ops.jobs.claims import encode_routes


class ServedRoutes:
    """Routes in the order of the worker's queues, encoded again only when they change."""

    def __init__(
        self,
        queues: Sequence[str],
        capabilities: Iterable[str],
        *,
        strict: bool = True,
        versions: Mapping[str, str] | None = None,
        weights: Mapping[str, float] | None = None,
        batched: Iterable[str] = (),
        random: Callable[[], float] = _random.random,
    ) -> None:
        """`strict` takes from a queue only when those before it are empty; otherwise they count as one.

        With `weights` the order is drawn for each claim: a queue comes first as often as its weight says. `batched` are
        the tasks that take batches.
        """
        self._batched = tuple(batched)
        self.batches: dict[str, dict[str, str]] = {}
        """Routes of the tasks that take batches, by task and queue; they are not claimed with the others."""
        self.batch_of: dict[int, str] = {}
        """Their tasks, by route number."""
        self._apart: frozenset[Route] = frozenset()
        self.queues = tuple(queues)
        self._strict = strict
        self._weights = weights or {}
        self._random = random
        self.capabilities = frozenset(capabilities)
        self._versions = versions or {}
        self.affinities: dict[int, str] = {}
        """Affinities of the served routes that have one, by route number."""
        self.own: frozenset[int] = frozenset()
        """Routes that only workers of its name serve."""
        self.numbers: frozenset[int] = frozenset()
        self._special: frozenset[Route] = frozenset()
        self.encoded = self._encode()

    def learn(self, routes: Iterable[Route]) -> bool:
        """Update the special routes that exist; True if the served routes changed."""
        served = frozenset(route for route in routes if self._serves(route))
        if served == self._special:
            return False
        self._special = served
        self._learn_batches()
        self.affinities = {route.number: route.affinity for route in served if route.affinity}
        self.own = frozenset(route.number for route in served if is_for_one(route))
        self.encoded = self._encode()
        return True

    def _learn_batches(self) -> None:
        self.batches, self.batch_of = {}, {}
        apart: set[Route] = set()
        for task in self._batched:
            routes = [route for route in self._special if task_capability(task) in route.requires]
            apart.update(routes)
            self.batch_of |= {route.number: task for route in routes}
            for queue in sorted({route.queue for route in routes}):
                of_queue = sorted((route for route in routes if route.queue == queue), key=lambda r: r.number)
                self.batches.setdefault(task, {})[queue] = encode_routes([of_queue])
        self._apart = frozenset(apart)

    def _serves(self, route: Route) -> bool:
        return route.is_served_by(frozenset(self.queues), self.capabilities) and fits(route.version, self._versions)

    def find(self, number: int, queue: str) -> Route:
        """Return the served route of that number."""
        return next((r for r in self._special if r.number == number), Route(queue))

    def current(self) -> str:
        """Return the routes for the next claim."""
        return self._routes(self._order()) if self._weights or self._apart else self.encoded

    def beside(
        self, running: Counter[str], shares: Mapping[str, int], free: int
    ) -> tuple[str | None, tuple[tuple[str, int], ...]]:
        """Return the routes of queues below their share here; None if every queue's share is used up."""
        room = {queue: slots - running[queue] for queue, slots in shares.items()}
        routes, parts = self.within(room, free)
        return (routes, parts) if parts else (None, ())

    def within(self, room: Mapping[str, int], free: int) -> tuple[str, tuple[tuple[str, int], ...]]:
        """Return the routes of queues with room, and the same split where a queue has less room than the worker."""
        open_queues = [queue for queue in self._order() if room.get(queue, free) > 0]
        parts: list[tuple[list[str], int]] = []
        for queue in open_queues:
            most = min(room.get(queue, free), free)
            if parts and most == free == parts[-1][1]:
                parts[-1][0].append(queue)
            else:
                parts.append(([queue], most))
        return self._routes(open_queues), tuple((self._routes(queues), most) for queues, most in parts)

    def _order(self) -> Sequence[str]:
        if not self._weights:
            return self.queues
        # Sorting by u^(1/weight) draws queues without replacement, each with the probability of its weight.
        drawn = {queue: self._random() ** (1 / self._weights.get(queue, 1.0)) for queue in self.queues}
        return sorted(self.queues, key=drawn.__getitem__, reverse=True)

    def _routes(self, queues: Sequence[str]) -> str:
        return encode_routes(self._tiers(queues, self._special - self._apart))

    def _encode(self) -> str:
        tiers = self._tiers(self.queues, self._special)
        self.numbers = frozenset(route.number for tier in tiers for route in tier)
        return encode_routes(tiers)

    def _tiers(self, queues: Sequence[str], special: frozenset[Route]) -> list[list[Route]]:
        tiers = [[Route(queue), *_of_queue(queue, special)] for queue in queues]
        return tiers if self._strict else [[route for tier in tiers for route in tier]]


def _of_queue(queue: str, routes: frozenset[Route]) -> list[Route]:
    return sorted((r for r in routes if r.queue == queue), key=lambda r: r.number)
