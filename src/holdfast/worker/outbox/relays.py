"""The relays of a worker: one per destination that it serves, with one listener for all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...clock import SECOND, Clock
from ...model.outcomes import Outcome
from ...storage.ops.jobs.claims import encode_routes
from ...storage.ops.outbox import entries
from ...storage.port import Op, Store
from ...tasks.destinations import Destination
from ...tasks.task import Task
from ...telemetry import RunTally
from ..registration import served_destinations
from ..settings import WorkerSettings
from ..state import WorkerState
from .relay import Relay

logger: Final = logging.getLogger("holdfast.worker")

_OVERDUE: Final = 0.01
_LONGEST_SILENCE: Final = 60.0
# A poll would compete with the claim that the same wake-up started.
_CLAIM_FIRST: Final = 0.01
# Repairs are for entries that ended elsewhere than in a relay.
_POLLS_PER_REPAIR: Final = 3


class Relays:
    """The runner's `batched` jobs: those that this worker owns and that are not run one by one."""

    def __init__(
        self,
        store: Store,
        state: WorkerState,
        settings: WorkerSettings,
        tasks: Mapping[str, Task[Any, Any]],
        clock: Clock,
        random: Callable[[], float],
        *,
        leads: Callable[[str], bool],
        in_flight: set[str],
        tally: RunTally,
        on_idle: Callable[[], None],
    ) -> None:
        """`leads` says whether the worker has a role; `in_flight` has the tokens of its claims without an answer."""
        self._store = store
        self._poll = settings.poll
        self._random = random
        self._rang = asyncio.Event()
        self._polls = 0
        self.all: Final = tuple(
            Relay(
                destination, store, state, clock, random, leads=leads, in_flight=in_flight, tally=tally, on_idle=on_idle
            )
            for destination in served_destinations(settings, tasks)
        )
        self._routes = encode_routes([[route for relay in self.all for route in relay.routes]])

    @property
    def delivering(self) -> bool:
        """True while a batch is under way."""
        return any(relay.delivering for relay in self.all)

    def has(self, job_id: str, epoch: int) -> bool:
        """Return True if a relay holds that entry."""
        return any((job_id, epoch) in relay.held for relay in self.all)

    def stop(self, why: str) -> None:
        for relay in self.all:
            relay.stop(why)

    def request_claim(self) -> None:
        """Check for entries to deliver, or for a stop, and poll soon for what becomes due."""
        for relay in self.all:
            relay.request_claim()
        self._rang.set()

    async def run(self) -> None:
        """Deliver until the worker stops."""
        beside = [asyncio.create_task(work) for work in (self._listen(), self._watch())] if self.all else []
        try:
            await asyncio.gather(*(relay.run() for relay in self.all))
        finally:
            for task in beside:
                task.cancel()

    def close(self) -> None:
        for relay in self.all:
            relay.delivery.close()

    async def drain(self) -> list[Outcome]:
        """Deliver all that is due now, batch by batch; return the outcomes."""
        outcomes: list[Outcome] = []
        for relay in self.all:
            while (ended := await relay.run_once()) is not None:
                outcomes += ended
        return outcomes

    async def _listen(self) -> None:
        listener = self._store.wakeups.listen([f"queue:{relay.queue}" for relay in self.all])
        try:
            while True:
                if await listener.await_ring(_LONGEST_SILENCE):
                    self.request_claim()
        finally:
            listener.close()

    async def _watch(self) -> None:
        """Poll at intervals, and soon after a wake-up: wake-ups are hints."""
        while True:
            try:
                rest = await self.look()
            except Exception as error:
                if not self._store.outage.covers("the poll for outbox entries", error):
                    logger.error("could not poll for entries (%s: %s); trying again", type(error).__name__, error)
                rest = self._poll
            try:
                async with asyncio.timeout(rest):
                    await self._rang.wait()
                await asyncio.sleep(_CLAIM_FIRST)
            except TimeoutError:
                pass
            self._rang.clear()

    async def look(self) -> float:
        """Wake the relays that have something to deliver; return the longest wait until the next poll, in seconds."""
        signs = await self._store.aread(Op(lambda tx: entries.look(tx, self._routes)))
        overdue = signs.next_due is not None and signs.next_due <= 0
        for relay in self.all:
            relay.parked = relay.parked or relay.queue in signs.parked
            if overdue or relay.queue in signs.claimable:
                relay.request_claim()
        self._polls += 1
        if self._polls % _POLLS_PER_REPAIR == 0:
            await self.release_stalled()
        return self._patience(signs.next_due)

    async def release_stalled(self) -> None:
        """Release entries that wait for others that have ended."""
        for relay in self.all:
            queue, n = relay.queue, relay.destination.wants.batch
            if relay.destination.wants.ordered and await self._store.aread(
                Op(lambda tx, queue=queue: entries.order_stalls(tx, queue))  # type: ignore[misc]
            ):
                await self._store.awrite(Op(lambda tx, queue=queue, n=n: entries.repair_order(tx, queue, n)))  # type: ignore[misc]

    def _patience(self, due: int | None) -> float:
        poll = self._poll * (0.75 + 0.5 * self._random())
        rests = [rest for relay in self.all if (rest := relay.delivery.rest)]
        if due is not None:
            rests.append(due / SECOND if due > 0 else _OVERDUE)
        return min([poll, *rests])


def roles_of(tasks: Mapping[str, Task[Any, Any]]) -> list[str]:
    """Return the roles of destinations that only one worker delivers to."""
    return [task.role for task in tasks.values() if isinstance(task, Destination) and task.wants.exclusive]
