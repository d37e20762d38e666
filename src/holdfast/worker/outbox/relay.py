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
from typing import Final, Protocol

from ...clock import SECOND, Clock
from ...errors import StorageError
from ...ids import token
from ...model.jobs import Claimed
from ...model.limits import ActiveLimits
from ...model.outcomes import Done, Finish, Outcome, Released, Retry
from ...model.routing import Route
from ...rules.failure import error_text
from ...storage.ops.jobs import claims
from ...storage.ops.jobs.claims import ClaimRequest, encode_routes
from ...storage.ops.outbox import entries
from ...storage.ops.outbox.entries import Taken
from ...storage.port import Op, Store
from ...tasks.destinations import Destination
from ..claiming.claimer import Claimer
from ..running.outcome import is_refusal, record_one_by_one
from .courier import Known
from .delivery import Delivery

logger: Final = logging.getLogger("holdfast.worker")

_PAUSE_AFTER_ERROR: Final = 0.5
_PAUSE_AFTER_FAULT: Final = 60 * SECOND


class Home(Protocol):
    """The relay's interface to its worker."""

    id: str
    closing: bool
    fenced: bool
    standing: ActiveLimits
    on_idle: Callable[[], None]
    claimer: Claimer

    def ended(self, job: Claimed, kind: type[Outcome], seconds: float, n: int = 1) -> None:
        """Count runs that ended with that outcome."""
        ...


class Batch:
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
        home: Home,
        clock: Clock,
        random: Callable[[], float],
        leads: Callable[[str], bool],
    ) -> None:
        """`leads` says whether the worker has a role."""
        self.destination: Final = destination
        self.queue: Final = destination.name
        plain = Route(self.queue)
        self.routes: Final = (plain, plain.requiring(f"task:{self.queue}"))
        self.delivery: Final = Delivery(destination, clock, random)
        self.parked = True
        """True if there may be parked entries, which a success releases."""
        self.delivering: Final[set[Batch]] = set()
        self.held: Final[set[tuple[str, int]]] = set()
        """Entries whose outcome is not in the store yet, by id and epoch."""
        self._encoded = encode_routes([self.routes])
        self._store = store
        self._home = home
        self._clock = clock
        self._leads = leads
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
        """Claim, deliver and record one batch; return its outcomes, None if there was nothing to claim."""
        self._may_have_work = True
        batch, finishes = await self._record_and_deliver("", [], await self._request())
        await self._turn(batch.owner, finishes, None)
        return [finish.outcome for finish in finishes] if batch.found else None

    async def _run_loop(self) -> None:
        owner, finishes = "", list[Finish]()
        while True:
            self._wake.clear()
            request = await self._request()
            if request is None and not finishes:
                if self._home.closing:
                    return
                await self._wake.wait()
                continue
            batch, finishes = await self._record_and_deliver(owner, finishes, request)
            owner = batch.owner

    async def _record_and_deliver(
        self, owner: str, finishes: list[Finish], request: ClaimRequest | None
    ) -> tuple[Batch, list[Finish]]:
        """Record one batch, claim the next and deliver it."""
        try:
            batch = await self._turn(owner, finishes, request)
            return batch, await self._deliver(batch) if batch.jobs else []
        finally:
            self._under_way -= request is not None

    # -- with the store

    async def _request(self) -> ClaimRequest | None:
        """Return the next claim; None if nothing should be claimed now."""
        home, wants = self._home, self.destination.wants
        if home.closing or home.fenced or not self._may_have_work or not self.delivery.may_begin(self._under_way):
            return None
        if wants.exclusive and not self._leads(self.destination.role):
            return None
        # Cleared before the claim: a wake-up that arrives during it asks for another one.
        self._may_have_work = False
        if not await self._is_ready():
            return None
        self._under_way += 1
        return ClaimRequest(
            owner=home.id,
            token=token(),
            routes=self._encoded,
            n=wants.batch,
            suspects=wants.batch,
            standing=home.standing,
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

    async def _turn(self, owner: str, finishes: list[Finish], request: ClaimRequest | None) -> Batch:
        """Record and claim. If the store fails, the outcomes are kept and retried."""
        taken = Taken([], 0)
        trouble: Exception | None
        while finishes or request:
            try:
                taken = await self._exchange(owner, finishes, request)
                break
            except Exception as error:
                self._may_have_work = True
                if request and (taken := await self._recover(request)).found:
                    break
                request, trouble = None, error
                if finishes and is_refusal(error):
                    finishes, trouble = await record_one_by_one(finishes, partial(self._record, owner))
                if trouble is not None:
                    if not self._store.outage.covers(f"the outbox {self.queue}", trouble):
                        logger.error("the store failed (%s); %d outcomes are kept and retried", trouble, len(finishes))
                    await asyncio.sleep(_PAUSE_AFTER_ERROR)
                # Entries lost meanwhile belong to other workers.
                finishes = [finish for finish in finishes if (finish.id, finish.epoch) in self.held]
        for finish in finishes:
            self.held.discard((finish.id, finish.epoch))
        return Batch(request.owner if request else owner, taken)

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
        self._home.claimer.in_flight.add(claim)
        try:
            taken = await self._store.awrite(op)
            self._take(taken, request)
        finally:
            self._home.claimer.in_flight.discard(claim)
        if unpark is not None:
            # Until a poll finds more of them.
            self.parked = False
        return taken

    async def _recover(self, request: ClaimRequest) -> Taken:
        """Read the claim again: its commit may have happened. Otherwise the next heartbeat hands its jobs back."""
        try:
            jobs = await self._store.aread(Op(lambda tx: claims.claimed_under(tx, request.owner, request.token)))
        except StorageError:
            return Taken([], 0)
        taken = Taken(jobs, len(jobs))
        self._take(taken, request)
        return taken

    def _take(self, taken: Taken, request: ClaimRequest | None) -> None:
        self.held.update((job.id, job.epoch) for job in taken.jobs)
        if request is not None and taken.found >= request.n:
            self.request_claim()

    # -- with the destination

    async def _deliver(self, batch: Batch) -> list[Finish]:
        """Deliver a batch; return the outcome of each entry, none if they belong to other workers by now."""
        started = self._clock.monotonic()
        self.delivering.add(batch)
        try:
            outcomes = await self._outcomes(batch)
        finally:
            self.delivering.discard(batch)
            if not self.delivering:
                self._home.on_idle()
        if batch.why == "lost":
            return []
        took = self._clock.monotonic() - started
        for kind, n in Counter(type(outcome) for _, outcome in outcomes).items():
            self._home.ended(batch.jobs[0], kind, took, n)
        if self.delivery.parks:
            self.parked = True
        if not self.delivery.strikes:
            # Other loops may have waited for this attempt.
            self._wake.set()
        return [Finish(job.id, job.epoch, outcome) for job, outcome in outcomes]

    async def _outcomes(self, batch: Batch) -> list[tuple[Claimed, Outcome]]:
        if self._home.closing or self._home.fenced:
            batch.stop("shutdown" if self._home.closing else "fenced")
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
