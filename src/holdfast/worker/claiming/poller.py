"""Listens for work and polls for it: wake-ups are hints, polling is the guarantee."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ...clock import SECOND
from ...storage.ops.routing.grants import expire_grants
from ...storage.ops.workers.lookout import Lookout, look
from ...storage.port import Listener, Op, Store
from ..state import WorkerState
from .outcomes import OutcomeQueue
from .routes import ServedRoutes

logger: Final = logging.getLogger("holdfast.worker")

# More jobs became due than one claim makes ready; the next claim gets more.
_OVERDUE: Final = 0.01
_LONGEST_SILENCE: Final = 60.0
# A poll would compete with the claim that the same wake-up started.
_CLAIM_FIRST: Final = 0.01


class WorkPoller:
    """Requests a claim whenever there may be something to claim."""

    def __init__(
        self,
        store: Store,
        state: WorkerState,
        routes: ServedRoutes,
        outcomes: OutcomeQueue,
        has_room: Callable[[], bool],
        *,
        poll: float,
        random: Callable[[], float],
    ) -> None:
        self._store = store
        self._state = state
        self._routes = routes
        self._outcomes = outcomes
        self._has_room = has_room
        self._poll = poll
        self._random = random
        self._rang = asyncio.Event()
        self._looking = asyncio.Lock()
        self._expects = False
        """True if something becomes due by time alone: a delayed job, a rate token, a breaker's next trial."""
        self._listener: Listener | None = None

    def listen(self) -> None:
        """Subscribe to wake-ups. Call it before the first poll: a job enqueued after that causes a wake-up."""
        self._listener = self._store.wakeups.listen([f"queue:{queue}" for queue in self._routes.queues])

    async def run(self, is_over: Callable[[], bool]) -> None:
        await asyncio.gather(self._listen(is_over), self._watch(is_over))

    async def _listen(self, is_over: Callable[[], bool]) -> None:
        """Claim at once on a wake-up: the enqueued job waits only for the claim."""
        assert self._listener is not None
        while not is_over():
            if await self._listener.await_ring(_LONGEST_SILENCE):
                self._outcomes.request_claim()
                self._rang.set()

    async def _watch(self, is_over: Callable[[], bool]) -> None:
        """Poll at intervals, and soon after a wake-up."""
        while not is_over():
            rest = await self.look()
            try:
                async with asyncio.timeout(rest):
                    await self._rang.wait()
                await asyncio.sleep(_CLAIM_FIRST)
            except TimeoutError:
                if self._expects:
                    self._outcomes.request_claim()
            self._rang.clear()

    async def look(self) -> float:
        """Poll once and survive store errors. A worker polls before it starts its first job."""
        try:
            return await self.run_once()
        except Exception as error:
            if not self._store.outage.covers("the poll for work", error):
                logger.error("could not poll for work (%s: %s); trying again", type(error).__name__, error)
            self._outcomes.request_claim()
            return self._poll

    async def run_once(self) -> float:
        """Update the served routes and the limits; return the longest wait until the next poll."""
        return self._patience(await self.update())

    async def update(self) -> int | None:
        """Update the served routes and the limits; return the microseconds until something is due, if anything is."""
        # One at a time: the last result stored must be the newest.
        async with self._looking:
            return await self._update()

    async def _update(self) -> int | None:
        state = self._state
        view = await self._look()
        if view.grants_over:
            await self._store.awrite(Op(expire_grants))
            view = await self._look()
        if new_routes := self._routes.learn(view.routes):
            # Suspects of the new routes count as well.
            view = await self._look()
        for scope in set(view.standing.breakers) - set(state.standing.breakers):
            logger.warning("circuit breaker %r holds its jobs back", scope)
        # Earlier claims did not know that jobs wait for a quota, which may have room by now.
        quotas = view.standing.quotas and not state.standing.quotas
        changed = new_routes or quotas or view.suspects_wait != state.suspects_wait
        state.standing, state.shares, state.suspects_wait = view.standing, view.shares, view.suspects_wait
        state.defaults.learn(view.queues)
        if changed or view.may_claim:
            self._outcomes.request_claim()
        self._expects = view.next_due is not None
        return view.next_due

    async def _look(self) -> Lookout:
        me, served = self._state.id, self._routes.numbers
        return await self._store.aread(Op(lambda tx: look(tx, me, served)))

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()

    def _patience(self, due: int | None) -> float:
        poll = self._poll * (0.75 + 0.5 * self._random())
        # A full worker claims by itself when a slot becomes free.
        if due is None or not self._has_room():
            return poll
        return min(poll, due / SECOND if due > 0 else _OVERDUE)
