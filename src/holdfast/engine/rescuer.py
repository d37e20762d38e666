"""Takes the jobs of lost workers. Every worker runs it; whoever is first wins, the others change nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from ..clock import SECOND
from ..model.worker import Worker
from ..storage.ops import workers
from ..storage.port import Op, Store
from .process import is_gone

logger: Final = logging.getLogger("holdfast.engine")


class Steady(Protocol):
    @property
    def steady_for(self) -> float: ...


class Rescuer:
    """Judges the silence of others only by a silence it has itself stayed awake through."""

    def __init__(self, store: Store, own_id: Callable[[], str], pulse: Steady, random: Callable[[], float]) -> None:
        self._store = store
        self._own_id = own_id
        self._pulse = pulse
        self._random = random

    async def run_once(self) -> None:
        """Rescue from every worker that is certainly or long enough gone."""
        failure: Exception | None = None
        for worker in await self._store.aread(Op(workers.list_workers)):
            try:
                await self._look_after(worker)
            except Exception as error:
                # The others' jobs must not wait for what one worker left behind.
                failure = error
        if failure is not None:
            raise failure

    async def _look_after(self, worker: Worker) -> None:
        if worker.id == self._own_id():
            return
        if is_gone(worker.process_key):
            await self._rescue(worker, certain=True)
        elif self._has_been_silent(worker):
            await self._rescue(worker, certain=False)

    def _has_been_silent(self, worker: Worker) -> bool:
        # After an outage of the store every lease has run out: nobody is dead until one has passed with it up.
        return worker.state == "dead" or (worker.is_expired and self._pulse.steady_for >= worker.lease / SECOND)

    async def _rescue(self, worker: Worker, *, certain: bool) -> None:
        count = await rescue_all(self._store, worker.id, certain=certain, spread=self._random())
        if count:
            logger.warning("worker %s (%s) is lost; %d of its jobs are ready again", worker.id, worker.name, count)


async def rescue_all(store: Store, worker_id: str, *, certain: bool, spread: float = 0.0) -> int:
    """Rescue a worker's jobs page by page; how many."""
    count = 0
    while True:
        page = await store.awrite(Op(lambda tx: workers.rescue(tx, worker_id, certain=certain, spread=spread)))
        count += len(page.rescued)
        if not page.more:
            return count
