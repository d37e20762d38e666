"""Listens for work, and looks for it by itself when nothing is heard: wake-ups are hints, polling is the guarantee."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ..clock import SECOND
from ..storage.ops.lookout import look
from ..storage.port import Op, Store
from .floor import Floor
from .routes import ServedRoutes

logger: Final = logging.getLogger("holdfast.engine")

# More became due than one claim makes ready; the next claim brings more.
_OVERDUE: Final = 0.01


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
            await self._listener.await_ring(await self.look())
            self._floor.turns.feed()

    async def look(self) -> float:
        """Like `run_once`, whatever the store does. A worker looks before it starts its first job."""
        try:
            return await self.run_once()
        except Exception as error:
            logger.error("could not look for work (%s: %s); trying again", type(error).__name__, error)
            return self._poll

    async def run_once(self) -> float:
        """Take note of who may be served, and under which limits; the longest wait until the next look."""
        served = self._routes.numbers
        me = self._floor.id
        view = await self._store.aread(Op(lambda tx: look(tx, me, served)))
        for scope in set(view.standing.breakers) - set(self._floor.standing.breakers):
            logger.warning("circuit breaker %r holds its jobs back", scope)
        self._floor.standing, self._floor.shares = view.standing, view.shares
        self._floor.defaults.learn(view.queues)
        news = self._routes.learn(view.routes)
        if news or view.suspects_wait != self._floor.suspects_wait:
            self._floor.suspects_wait = view.suspects_wait
            self._floor.turns.feed()
        return self._patience(view.next_due)

    def close(self) -> None:
        self._listener.close()

    def _patience(self, due: int | None) -> float:
        poll = self._poll * (0.75 + 0.5 * self._random())
        # A full worker claims by itself when a slot falls free.
        if due is None or self._floor.room() is None:
            return poll
        return min(poll, due / SECOND if due > 0 else _OVERDUE)
