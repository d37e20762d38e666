"""Delivers a batch of claimed entries: the outcome of each entry, and the state of the destination."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ...clock import Clock
from ...model.jobs import Claimed
from ...model.outbox import OutboxEvent
from ...model.outcomes import Done, Failed, Outcome, Parked, Rerouted, Snoozed, Throttled
from ...model.routing import Route
from ...rules.failure import Failure, FailureClass, error_json, error_text
from ...rules.outbox import STRIKES, fate, is_strike, next_look, read_event
from ...tasks.destinations import Destination
from .courier import Answer, Courier, Known

logger: Final = logging.getLogger("holdfast.worker")

_DELIVERED: Final = Done("null")

Outcomes = list[tuple[Claimed, Outcome]]


class Delivery:
    """For one destination in one worker."""

    def __init__(self, destination: Destination, clock: Clock, random: Callable[[], float]) -> None:
        self.strikes = 0
        """Failures in a row that concern the whole destination."""
        self.parks = False
        """True if the last batch parked entries."""
        self._destination = destination
        self._clock = clock
        self._random = random
        self._courier = Courier(destination, clock)
        self._rests_until = float("-inf")
        self._orphans: set[asyncio.Task[Any]] = set()

    @property
    def rest(self) -> float:
        """Seconds for which deliveries to the destination are paused."""
        return max(0.0, self._rests_until - self._clock.monotonic())

    def may_begin(self, under_way: int) -> bool:
        """Return True if another batch may be sent. After a failure, batches are sent one at a time."""
        return not (self.rest or self._courier.exhausted or (self.strikes and under_way))

    async def make(self, jobs: Sequence[Claimed], known: Known) -> Outcomes:
        """Deliver a batch; return the outcome of every entry. Fills `known`, for `cut_short`."""
        events, outcomes = self._sort(jobs)
        self.parks = False
        if events:
            answer, fates = await self._send(events, known)
            self._learn(answer, fates)
            outcomes += self._outcomes([job for job in jobs if job.id in fates], fates)
        return outcomes

    def cut_short(self, jobs: Sequence[Claimed], known: Known, others: Outcome) -> Outcomes:
        """Return the outcomes of a batch that was stopped: `others` for entries without an answer."""
        fates = {event.job: failure for event, failure in known}
        answered = self._outcomes([job for job in jobs if job.id in fates], fates)
        return [*answered, *((job, others) for job in jobs if job.id not in fates)]

    def give_up(self, work: asyncio.Task[Any]) -> None:
        """Cancel a delivery without waiting for it. A reference is kept until it ends."""
        self._orphans.add(work)
        work.add_done_callback(self._orphans.discard)
        work.cancel()

    def close(self) -> None:
        self._courier.close()

    async def _send(self, events: Sequence[OutboxEvent], known: Known) -> tuple[Answer, Mapping[str, Failure | None]]:
        # In a task of its own, so that a function that cancels itself is not mistaken for a worker that stops.
        work = asyncio.create_task(self._courier.deliver(events, known))
        try:
            await asyncio.wait((work,))
        finally:
            if not work.done():
                self.give_up(work)
        if not work.cancelled():
            return work.result()
        failure = Failure(FailureClass.TRANSIENT, error_json("CancelledError", "the delivery cancelled itself"))
        return failure, dict.fromkeys((event.job for event in events), failure)

    def _sort(self, jobs: Sequence[Claimed]) -> tuple[list[OutboxEvent], Outcomes]:
        """Return the events to deliver, and the outcomes of the other entries: unreadable, or held back by a gate."""
        events: list[OutboxEvent] = []
        others: Outcomes = []
        held: dict[tuple[str, str], Snoozed] = {}
        for job in jobs:
            if job.task != self._destination.name:
                route = Route(job.queue).requiring(f"task:{job.task}")
                others.append((job, Rerouted(route, "no_handler")))
                continue
            try:
                event = read_event(job)
            except Exception as error:
                others.append((job, Failed("undecodable", error_text(error))))
                continue
            if waits := self._waits(job, event, held):
                others.append((job, waits))
            else:
                events.append(event)
        return events, others

    def _waits(self, job: Claimed, event: OutboxEvent, held: dict[tuple[str, str], Snoozed]) -> Snoozed | None:
        """Return the delay of an event held back by its gate, or behind one of its key in `held`; jobs are in order."""
        key = (event.tenant, event.key) if self._destination.wants.ordered and event.key is not None else None
        if key is not None and key in held:
            return held[key]
        if self._passes(event):
            return None
        waits = Snoozed(next_look(job, self._clock.now()), "gate")
        if key is not None:
            held[key] = waits
        return waits

    def _passes(self, event: OutboxEvent) -> bool:
        gate = self._destination.wants.gate
        try:
            return gate is None or bool(gate(event))
        except Exception:
            logger.exception("the gate of %r failed for event %s; it waits", self._destination.short, event.id)
            return False

    def _outcomes(self, jobs: Sequence[Claimed], fates: Mapping[str, Failure | None]) -> Outcomes:
        policy, now = self._destination.policy, self._clock.now()
        decided: Outcomes = []
        cooled = False
        for job in jobs:
            failure = fates[job.id]
            if failure is None:
                decided.append((job, _DELIVERED))
                continue
            outcome = fate(failure, job, policy, now=now, u=self._random())
            if isinstance(outcome, Throttled):
                # The limit would apply to the next batch too: one entry's outcome pauses all relays.
                outcome = Throttled(outcome.delay, outcome.error, cools=not cooled)
                cooled = True
            self.parks = self.parks or isinstance(outcome, Parked)
            decided.append((job, outcome))
        return decided

    def _learn(self, answer: Answer, fates: Mapping[str, Failure | None]) -> None:
        """Pause deliveries after repeated failures that concern the whole destination."""
        shared = answer if isinstance(answer, Failure) else None
        if shared is None or any(failure is None for failure in fates.values()):
            self.strikes = 0
        elif is_strike(shared):
            self.strikes += 1
            if self.strikes >= STRIKES:
                rest = self._destination.policy.delay(1, self._random())
                self._rests_until = self._clock.monotonic() + rest
                logger.warning(
                    "destination %r failed %d times in a row; deliveries pause for %g s",
                    self._destination.short, self.strikes, rest,
                )  # fmt: skip
