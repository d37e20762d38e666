"""The claim loop: record finished jobs and claim as many new ones as there are free slots, in one commit.

No timer delays the record of a finished job: a batch is whatever finished during the previous commit.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

from ...clock import Clock
from ...errors import StorageError
from ...model.outcomes import Finish
from ...storage.ops.jobs import claims
from ...storage.ops.jobs.claims import ClaimRequest, Turn
from ...storage.port import Op, Store
from ..maintenance.health import ClaimTimes
from ..running.runner import JobRunner
from ..state import WorkerState
from .capacity import Capacity
from .outcomes import FailedCommits, OutcomeQueue
from .position import ClaimPosition

_LARGEST_BATCH: Final = 1_000
# While the server commits one batch, the handlers of another can run: 1.3 times the rate with 500 slots on two cores,
# 0.96 with 200, where batches get small. SQLite runs in this process, and two would compete for the GIL: 0.75.
_WORTH_A_TURN: Final = 200
# Where jobs have limits, most claims need more than one statement, and the single one would be wasted.
_SIMPLY_AGAIN: Final = 1.0


class Claimer:
    """Records the queued outcomes and claims jobs for the runner."""

    def __init__(
        self,
        store: Store,
        state: WorkerState,
        outcomes: OutcomeQueue,
        runner: JobRunner,
        clock: Clock,
        *,
        slots: int,
        patience: float,
    ) -> None:
        self._store = store
        self._state = state
        self._outcomes = outcomes
        self._runner = runner
        self._clock = clock
        self._patience = patience
        self._failures = FailedCommits(store, "a claim")
        self._on_server = store.backend == "postgres"
        self._at_once = 2 if self._on_server and slots >= 2 * _WORTH_A_TURN else 1
        self._turned = [clock.monotonic()] * self._at_once
        self._position = ClaimPosition(clock)
        self._claims = itertools.count(1)
        """Number of each claim; with the worker's id it identifies the claim in the store."""
        self._simply_after = clock.monotonic()
        self._most = -(-slots // self._at_once)
        self._asked: list[Capacity] = []
        self.claim_times: Final = ClaimTimes(clock)

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Run the claim loop until `is_over`, two in parallel where that is faster."""
        await asyncio.gather(*(self._run_loop(number, is_over) for number in range(self._at_once)))

    @property
    def turned_at(self) -> float:
        """When the slower of the loops last began a turn (monotonic clock). A wake-up makes an idle one turn."""
        return min(self._turned)

    async def _run_loop(self, number: int, is_over: Callable[[], bool]) -> None:
        while not is_over():
            self._turned[number] = self._clock.monotonic()
            self._outcomes.wake.clear()
            if not await self.run_once():
                await self._outcomes.wake.wait()
        self._outcomes.wake.set()

    async def run_once(self) -> bool:
        """Record and claim once; False if there was nothing to record and no free slot, or nothing to claim."""
        room = self._room() if self._outcomes.may_have_work else None
        if not self._outcomes.waiting and room is None:
            return False
        batch = self._outcomes.take(_LARGEST_BATCH)
        try:
            await self._take(batch, room)
            self._store.outage.passed()
        except Exception as error:
            await self._cope(error, batch)
        finally:
            self._outcomes.done(batch)
        return True

    def _room(self) -> Capacity | None:
        """Return the capacity to claim for now. Two parallel loops each claim for at most half of the slots."""
        room = self._runner.room()
        if room is None:
            return None
        open_ = sum(asked.n for asked in self._asked)
        # Claims with shares per queue, or for jobs that run alone, are not made beside another claim.
        if self._asked and (room.n <= open_ or not room.is_plain or not all(asked.is_plain for asked in self._asked)):
            return None
        if room.kinds is not None:
            return room
        suspects = 0 if self._asked else room.suspects
        return Capacity(min(room.n - open_, self._most), room.routes, suspects, room.alone, room.parts, room.routing)

    async def _take(self, finishes: list[Finish], room: Capacity | None) -> None:
        request = self._request(room)
        if request is None:
            turn = await self._exchange(finishes, None)
            self._mark(turn, self._position.edition)
            self._outcomes.recorded(finishes, turn)
            return
        assert room is not None
        outcomes, edition = self._outcomes, self._position.edition
        outcomes.in_flight.add(request.token)
        self._asked.append(room)
        # Cleared before the claim: a wake-up that arrives during it asks for another one.
        outcomes.may_have_work = False
        started = self._clock.monotonic()
        try:
            turn = await self._exchange(finishes, request)
            self.claim_times.add(started)
            self._mark(turn, edition)
            self._note_found(room, turn)
            if request.routing is not None:
                # A parked job has left its place to others.
                outcomes.may_have_work = outcomes.may_have_work or (turn.others_wait and turn.parked > 0)
                self._runner.others_wait(turn.others_wait)
            outcomes.recorded(finishes, turn)
            if request.owner == self._state.id:
                self._runner.dispatch(turn.claimed, request.token)
            # Else the worker was declared lost before the answer arrived, and its jobs were taken away.
        except StorageError:
            # The commit may have happened: its jobs are read again now, or handed back at the next heartbeat.
            if (jobs := await self._failures.recover(self._state.id, request.token)) is not None:
                self._runner.dispatch(jobs, request.token)
            raise
        finally:
            outcomes.in_flight.discard(request.token)
            self._asked.remove(room)

    def _note_found(self, room: Capacity, turn: Turn) -> None:
        """Note whether there may be more to claim; a wake-up during the claim has said so already."""
        outcomes = self._outcomes
        if outcomes.may_have_work:
            return
        if room.kinds is None:
            outcomes.may_have_work = len(turn.claimed) + turn.parked >= room.n
        else:
            outcomes.exhausted.update(self._runner.exhausted(room, turn.claimed, turn.parked))
            # Kinds that had no room this time may have more too.
            outcomes.may_have_work = not outcomes.exhausted.issuperset(self._runner.kinds())

    async def _exchange(self, finishes: list[Finish], request: ClaimRequest | None) -> Turn:
        owner = self._state.id
        if not finishes and request is not None and (turn := await self._claim_simply(request)):
            return turn
        op = Op(
            lambda tx: claims.turn(tx, owner, finishes, request),
            patience=self._patience,
            may_lose_on_power_failure=not finishes,
            name="claim" if not finishes else "finish" if request is None else "finish_and_claim",
        )
        return await self._store.awrite(op)

    async def _claim_simply(self, request: ClaimRequest) -> Turn | None:
        """Claim in one round trip instead of four: on an idle worker a job starts 0.4 ms earlier (of 3.9 ms)."""
        if not self._on_server or not request.is_simple or self._clock.monotonic() < self._simply_after:
            return None
        turn = await self._store.awrite(Op(lambda tx: claims.lone_claim(tx, request), single=True, name="claim"))
        if turn is None:
            self._simply_after = self._clock.monotonic() + _SIMPLY_AGAIN
        return turn

    def _request(self, room: Capacity | None) -> ClaimRequest | None:
        if room is None:
            return None
        return room.request(self._state.id, f"{next(self._claims):x}", self._state.standing, self._beyond(room))

    def _beyond(self, room: Capacity) -> str | None:
        """Return where the claim may start; None for a full scan, as with limits, which put jobs back in place."""
        standing = self._state.standing
        # SQLite removes claimed jobs from its indexes at once: there is nothing to skip.
        if not self._on_server or not room.is_plain or standing.lanes or standing.scopes:
            return None
        if standing.breakers or standing.quotas:
            return None
        return self._position.beyond(room.routes)

    def _mark(self, turn: Turn, edition: int) -> None:
        if turn.met_limits:
            self._position.met_limits()
        elif self._on_server:
            self._position.note(turn.claimed, edition)

    async def _cope(self, error: Exception, batch: list[Finish]) -> None:
        """Keep every outcome that the store does not have, and retry."""
        kept, trouble = await self._failures.record_rest(error, batch, self._record)
        self._outcomes.put_back(kept)
        self._outcomes.expect_work()
        await self._failures.pause(trouble, len(kept))

    async def _record(self, finish: Finish) -> None:
        self._outcomes.recorded([finish], await self._exchange([finish], None))
