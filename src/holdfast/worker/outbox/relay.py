"""Delivers the events of one destination: claims a batch, delivers it, records the outcome of each entry.

The outcomes of a batch and the claim of the next are one transaction. Several batches and several workers may deliver
at once: the claim gives an entry to one of them, and every record requires that it still owns the entry.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from ...clock import SECOND, Clock
from ...ids import token
from ...model.jobs import Claimed
from ...model.outcomes import Done, Finish, Outcome, Released, Retry
from ...model.routing import Route
from ...rules.failure import error_text
from ...storage.ops.jobs.claims import ClaimRequest, encode_routes
from ...storage.ops.outbox import entries
from ...storage.ops.outbox.entries import Taken
from ...storage.port import Op, Store
from ...tasks.destinations import Destination
from ...telemetry import RunTally
from ..claiming.outcomes import FailedCommits
from ..running.runs import count_runs
from ..state import WorkerState
from .delivery import BatchDelivery, Known

logger: Final = logging.getLogger("holdfast.worker")

_PAUSE_AFTER_FAULT: Final = 60 * SECOND


class ClaimedBatch:
    """Entries claimed by this worker."""

    __slots__ = ("found", "jobs", "owner", "stopped", "why")

    def __init__(self, owner: str, taken: Taken) -> None:
        self.owner = owner
        self.jobs = taken.jobs
        self.found = taken.found
        self.stopped = asyncio.Event()
        self.why = ""

    def stop(self, why: str) -> None:
        self.why = self.why or why
        self.stopped.set()


class Relay:
    """For one destination in one worker. Everything here happens on the event loop's thread."""

    def __init__(
        self,
        destination: Destination,
        store: Store,
        state: WorkerState,
        clock: Clock,
        random: Callable[[], float],
        *,
        leads: Callable[[str], bool],
        in_flight: set[str],
        tally: RunTally,
        on_idle: Callable[[], None],
    ) -> None:
        self.destination: Final = destination
        self.queue: Final = destination.name
        plain = Route(self.queue)
        self.routes: Final = (plain, plain.requiring(f"task:{self.queue}"))
        self.delivery: Final = BatchDelivery(destination, clock, random)
        self.parked = True
        """True if there may be parked entries, which a success releases."""
        self.delivering: Final[set[ClaimedBatch]] = set()
        self.held: Final[set[tuple[str, int]]] = set()
        """Entries whose outcome is not in the store yet, by id and epoch."""
        self._encoded = encode_routes([self.routes])
        self._store = store
        self._state = state
        self._clock = clock
        self._leads = leads
        self._in_flight = in_flight
        self._tally = tally
        self._on_idle = on_idle
        self._failures = FailedCommits(store, f"the outbox {self.queue}")
        self._may_have_work = True
        self._wake = asyncio.Event()
        self._under_way = 0
        """Batches that are being claimed or delivered."""

    def request_claim(self) -> None:
        """Check for entries to deliver, or for a stop."""
        self._may_have_work = True
        self._wake.set()

    def stop(self, why: str) -> None:
        """Stop the batches under way: fenced, lost, or the grace period of a shutdown is over."""
        for batch in self.delivering:
            batch.stop(why)
        if why == "lost":
            self.held.clear()

    async def run(self) -> None:
        """Deliver until the worker stops."""
        await asyncio.gather(*(self._run_loop() for _ in range(self.destination.flights)))

    async def run_once(self) -> list[Outcome] | None:
        """Claim, deliver and record one batch, leader or not; return its outcomes, None if there was nothing."""
        self._may_have_work = True
        batch, finishes = await self._record_and_deliver("", [], await self._request(lambda _: True))
        await self._turn(batch.owner, finishes, None)
        return [finish.outcome for finish in finishes] if batch.found else None

    async def _run_loop(self) -> None:
        owner, finishes = "", list[Finish]()
        while True:
            self._wake.clear()
            request = await self._request(self._leads)
            if request is None and not finishes:
                if self._state.closing:
                    return
                await self._wake.wait()
                continue
            batch, finishes = await self._record_and_deliver(owner, finishes, request)
            owner = batch.owner

    async def _record_and_deliver(
        self, owner: str, finishes: list[Finish], request: ClaimRequest | None
    ) -> tuple[ClaimedBatch, list[Finish]]:
        """Record one batch, claim the next and deliver it."""
        try:
            batch = await self._turn(owner, finishes, request)
            return batch, await self._deliver(batch) if batch.jobs else []
        finally:
            self._under_way -= request is not None

    # -- with the store

    async def _request(self, leads: Callable[[str], bool]) -> ClaimRequest | None:
        """Return the next claim; None if nothing should be claimed now."""
        state, wants = self._state, self.destination.wants
        if state.closing or state.fenced or not self._may_have_work or not self.delivery.may_begin(self._under_way):
            return None
        if wants.exclusive and not leads(self.destination.role):
            return None
        # Cleared before the claim: a wake-up that arrives during it asks for another one.
        self._may_have_work = False
        if not await self._is_ready():
            return None
        self._under_way += 1
        return ClaimRequest(
            owner=state.id,
            token=token(),
            routes=self._encoded,
            n=wants.batch,
            suspects=wants.batch,
            standing=state.standing,
        )

    async def _is_ready(self) -> bool:
        ready = self.destination.wants.ready
        if ready is None:
            return True
        try:
            answer = ready()
            return bool(await answer if inspect.isawaitable(answer) else answer)
        except Exception:
            logger.exception("ready() of destination %r failed; it counts as not ready", self.destination.short)
            return False

    async def _turn(self, owner: str, finishes: list[Finish], request: ClaimRequest | None) -> ClaimedBatch:
        """Record and claim. If the store fails, the outcomes are kept and retried."""
        taken = Taken([], 0)
        while finishes or request:
            try:
                taken = await self._exchange(owner, finishes, request)
                break
            except Exception as error:
                self._may_have_work = True
                if request and (taken := await self._recover(request)).found:
                    break
                request = None
                finishes, trouble = await self._failures.record_rest(error, finishes, partial(self._record, owner))
                await self._failures.pause(trouble, len(finishes))
                # Entries lost meanwhile belong to other workers.
                finishes = [finish for finish in finishes if (finish.id, finish.epoch) in self.held]
        for finish in finishes:
            self.held.discard((finish.id, finish.epoch))
        return ClaimedBatch(request.owner if request else owner, taken)

    async def _record(self, owner: str, finish: Finish) -> None:
        await self._exchange(owner, [finish], None)
        self.held.discard((finish.id, finish.epoch))

    async def _exchange(self, owner: str, finishes: list[Finish], request: ClaimRequest | None) -> Taken:
        unpark = self.queue if self.parked and any(isinstance(f.outcome, Done) for f in finishes) else None
        ordered = self.destination.wants.ordered
        op = Op(
            lambda tx: entries.turn(tx, owner, finishes, request, unpark=unpark, ordered=ordered),
            may_lose_on_power_failure=not finishes,
        )
        claim = request.token if request else ""
        # So that a heartbeat does not hand back its jobs before the answer arrives.
        self._in_flight.add(claim)
        try:
            taken = await self._store.awrite(op)
            self._take(taken, request)
        finally:
            self._in_flight.discard(claim)
        if unpark is not None:
            # Until a poll finds more of them.
            self.parked = False
        return taken

    async def _recover(self, request: ClaimRequest) -> Taken:
        jobs = await self._failures.recover(request.owner, request.token) or []
        taken = Taken(jobs, len(jobs))
        self._take(taken, request)
        return taken

    def _take(self, taken: Taken, request: ClaimRequest | None) -> None:
        self.held.update((job.id, job.epoch) for job in taken.jobs)
        if request is not None and taken.found >= request.n:
            self.request_claim()

    # -- with the destination

    async def _deliver(self, batch: ClaimedBatch) -> list[Finish]:
        """Deliver a batch; return the outcome of each entry, none if they belong to other workers by now."""
        started = self._clock.monotonic()
        self.delivering.add(batch)
        try:
            outcomes = await self._outcomes(batch)
        finally:
            self.delivering.discard(batch)
            if not self.delivering:
                self._on_idle()
        if batch.why == "lost":
            return []
        took = self._clock.monotonic() - started
        for kind, n in Counter(type(outcome) for _, outcome in outcomes).items():
            count_runs(self._tally, batch.jobs[0], kind, took, n)
        if self.delivery.parks:
            self.parked = True
        if not self.delivery.strikes:
            # Other loops may have waited for this attempt.
            self._wake.set()
        return [Finish(job.id, job.epoch, outcome) for job, outcome in outcomes]

    async def _outcomes(self, batch: ClaimedBatch) -> list[tuple[Claimed, Outcome]]:
        if self._state.closing or self._state.fenced:
            batch.stop("shutdown" if self._state.closing else "fenced")
            return [(job, Released(batch.why)) for job in batch.jobs]
        known: Known = []
        work = asyncio.create_task(self.delivery.make(batch.jobs, known))
        stopped = asyncio.create_task(batch.stopped.wait())
        try:
            await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not work.done():
                self.delivery.give_up(work)
        if not work.done():
            # Answered entries are not sent again.
            return self.delivery.cut_short(batch.jobs, known, Released(batch.why))
        try:
            return work.result()
        except Exception as error:
            logger.exception("the outcome of a batch for %r is unknown", self.destination.short)
            return [(job, Retry(_PAUSE_AFTER_FAULT, error_text(error))) for job in batch.jobs]
