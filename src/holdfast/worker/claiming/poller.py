"""Listens for work, and looks for it by itself when nothing is heard: wake-ups are hints, polling is the guarantee."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ...clock import SECOND
from ...storage.ops.routing.grants import expire_grants
from ...storage.ops.workers.lookout import look
from ...storage.port import Op, Store
from ..running.runner import JobRunner
from .routes import ServedRoutes

logger: Final = logging.getLogger("holdfast.worker")

# More became due than one claim makes ready; the next claim brings more.
_OVERDUE: Final = 0.01
_LONGEST_SILENCE: Final = 60.0
# A look takes the loop and the store from the claim that the same ring set off.
_CLAIM_FIRST: Final = 0.01


class WorkPoller:
    """Feeds the turns whenever there may be something to claim."""

    def __init__(
        self, store: Store, routes: ServedRoutes, runner: JobRunner, *, poll: float, random: Callable[[], float]
    ) -> None:
        self._store = store
        self._routes = routes
        self._runner = runner
        self._poll = poll
        self._random = random
        self._rang = asyncio.Event()
        self._looking = asyncio.Lock()
        self._expects = False
        """Whether time alone will bring something: a delayed job, a token, a breaker's next trial."""
        self._listener = store.bell.listen([f"queue:{queue}" for queue in routes.queues])

    async def run(self, is_over: Callable[[], bool]) -> None:
        await asyncio.gather(self._hear(is_over), self._watch(is_over))

    async def _hear(self, is_over: Callable[[], bool]) -> None:
        """A ring feeds at once: the job that was enqueued waits for nothing but the claim."""
        while not is_over():
            if await self._listener.await_ring(_LONGEST_SILENCE):
                self._runner.claimer.request_claim()
                self._rang.set()

    async def _watch(self, is_over: Callable[[], bool]) -> None:
        """Look around now and then, and soon after a ring."""
        while not is_over():
            rest = await self.look()
            try:
                async with asyncio.timeout(rest):
                    await self._rang.wait()
                await asyncio.sleep(_CLAIM_FIRST)
            except TimeoutError:
                if self._expects:
                    self._runner.claimer.request_claim()
            self._rang.clear()

    async def look(self) -> float:
        """Like `run_once`, whatever the store does. A worker looks before it starts its first job."""
        try:
            return await self.run_once()
        except Exception as error:
            if not self._store.outage.covers("the look for work", error):
                logger.error("could not look for work (%s: %s); trying again", type(error).__name__, error)
            self._runner.claimer.request_claim()
            return self._poll

    async def run_once(self) -> float:
        """Take note of who may be served, and under which limits; the longest wait until the next look."""
        # One after the other: the last word must be the newest.
        async with self._looking:
            return await self._take_note()

    async def _take_note(self) -> float:
        served = self._routes.numbers
        me = self._runner.id
        view = await self._store.aread(Op(lambda tx: look(tx, me, served)))
        if view.grants_over:
            await self._store.awrite(Op(expire_grants))
            view = await self._store.aread(Op(lambda tx: look(tx, me, served)))
        for scope in set(view.standing.breakers) - set(self._runner.standing.breakers):
            logger.warning("circuit breaker %r holds its jobs back", scope)
        # Claims before this look did not know that jobs wait for a quota, which may have room by now.
        quotas = view.standing.quotas and not self._runner.standing.quotas
        self._runner.standing, self._runner.shares = view.standing, view.shares
        self._runner.defaults.learn(view.queues)
        news = self._routes.learn(view.routes)
        changed = news or quotas or view.suspects_wait != self._runner.suspects_wait
        self._runner.suspects_wait = view.suspects_wait
        if changed or view.may_claim:
            self._runner.claimer.request_claim()
        self._expects = view.next_due is not None
        return self._patience(view.next_due)

    def close(self) -> None:
        self._listener.close()

    def _patience(self, due: int | None) -> float:
        poll = self._poll * (0.75 + 0.5 * self._random())
        # A full worker claims by itself when a slot falls free.
        if due is None or self._runner.room() is None:
            return poll
        return min(poll, due / SECOND if due > 0 else _OVERDUE)
