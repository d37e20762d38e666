"""Listens for work, and looks for it by itself when nothing is heard: wake-ups are hints, polling is the guarantee."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ..clock import SECOND
from ..errors import StorageError
from ..storage.ops import claims
from ..storage.ops.routes import special_routes
from ..storage.port import Op, Store
from .floor import Floor
from .routes import ServedRoutes

logger: Final = logging.getLogger("holdfast.engine")

_SHORTEST: Final = 0.001


class Ears:
    """Feeds the turns whenever there may be something to claim."""

    def __init__(
        self, store: Store, routes: ServedRoutes, floor: Floor, *, poll: float, random: Callable[[], float]
    ) -> None:
        self._store = store
        self._routes = routes
        self._floor = floor
        self._poll = poll
        self._random = random
        self._listener = store.bell.listen([f"queue:{queue}" for queue in routes.queues])

    async def run(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            try:
                await self.run_once()
            except StorageError as error:
                logger.error("could not look for work (%s: %s); trying again", type(error).__name__, error)
                await self._listener.await_ring(self._poll)
            self._floor.turns.feed()

    async def run_once(self) -> None:
        """Wait until there may be work: a ring, a job that comes due, or the end of patience."""
        await self._listener.await_ring(await self._patience())
        routes = await self._store.aread(Op(special_routes))
        self._routes.learn(routes)
        self._floor.suspects_wait = await self._store.aread(Op(claims.suspects_wait))

    def close(self) -> None:
        self._listener.close()

    async def _patience(self) -> float:
        due = await self._store.aread(Op(claims.next_due))
        poll = self._poll * (0.75 + 0.5 * self._random())
        return poll if due is None else min(poll, max(_SHORTEST, due / SECOND))
