"""Delivers a batch of claimed entries: the outcome of each entry, and the state of the destination.

One call for the whole batch comes first. Only if that fails permanently are its events sent one by one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ...clock import Clock
from ...errors import WrongAnswer
from ...model.jobs import Claimed
from ...model.outbox import OutboxEvent
from ...model.outcomes import Cancelled, Done, Failed, Outcome, Parked, Rerouted, Snoozed, Throttled
from ...model.routing import Route
from ...outcomes import DeliveryFailed, JobOutcome, Rejected
from ...rules import answers
from ...rules.failure import Failure, FailureClass, classify, error_json, error_text
from ...rules.outbox import STRIKES, is_strike, isolate, next_look, outcome_after, read_event
from ...tasks.destinations import Destination
from ...telemetry import Tracing
from ..running.threads import ThreadPool

logger: Final = logging.getLogger("holdfast.worker")

_DELIVERED: Final = Done("null")

Outcomes = list[tuple[Claimed, Outcome]]
Answer: TypeAlias = "Failure | Mapping[str, Failure]"
"""Result of a call: one failure for all, or the failures of rejected events by job; empty is success."""
Known: TypeAlias = "list[tuple[OutboxEvent, Failure | None]]"

_LONGEST_BODY: Final = 64 * 1024


class BatchDelivery:
    """For one destination in one worker."""

    def __init__(self, destination: Destination, clock: Clock, random: Callable[[], float]) -> None:
        self.strikes = 0
        """Failures in a row that concern the whole destination."""
        self.parks = False
        """True if the last batch parked entries."""
        self._destination = destination
        self._clock = clock
        self._random = random
        self._caller = DestinationCaller(destination, clock)
        self._rests_until = float("-inf")
        self._orphans: set[asyncio.Task[Any]] = set()

    @property
    def rest(self) -> float:
        """Seconds for which deliveries to the destination are paused."""
        return max(0.0, self._rests_until - self._clock.monotonic())

    def may_begin(self, under_way: int) -> bool:
        """Return True if another batch may be sent. After a failure, batches are sent one at a time."""
        return not (self.rest or self._caller.exhausted or (self.strikes and under_way))

    async def make(self, jobs: Sequence[Claimed], known: Known) -> Outcomes:
        """Deliver a batch; return the outcome of every entry. Fills `known`, for `cut_short`."""
        events, outcomes = self._sort(jobs)
        self.parks = False
        if events:
            answer, failures = await self._send_traced(jobs, events, known)
            self._learn(answer, failures)
            outcomes += self._outcomes([job for job in jobs if job.id in failures], failures)
        return outcomes

    def cut_short(self, jobs: Sequence[Claimed], known: Known, others: Outcome) -> Outcomes:
        """Return the outcomes of a batch that was stopped: `others` for entries without an answer."""
        failures = {event.job: failure for event, failure in known}
        answered = self._outcomes([job for job in jobs if job.id in failures], failures)
        return [*answered, *((job, others) for job in jobs if job.id not in failures)]

    def give_up(self, work: asyncio.Task[Any]) -> None:
        """Cancel a delivery without waiting for it. A reference is kept until it ends."""
        self._orphans.add(work)
        work.add_done_callback(self._orphans.discard)
        work.cancel()

    def close(self) -> None:
        self._caller.close()

    async def _send_traced(
        self, jobs: Sequence[Claimed], events: Sequence[OutboxEvent], known: Known
    ) -> tuple[Answer, Mapping[str, Failure | None]]:
        tracing: Tracing | None = getattr(self._destination.app, "tracing", None)
        if tracing is None:
            return await self._send(events, known)
        sent = {event.job for event in events}
        with tracing.delivery(self._destination.name, [job for job in jobs if job.id in sent]) as sending:
            answer, failures = await self._send(events, known)
            failed = [failure for failure in failures.values() if failure is not None]
            sending.ended(error=failed[0].error if failed else "")
        return answer, failures

    async def _send(self, events: Sequence[OutboxEvent], known: Known) -> tuple[Answer, Mapping[str, Failure | None]]:
        # In a task of its own, so that a function that cancels itself is not mistaken for a worker that stops.
        work = asyncio.create_task(self._caller.deliver(events, known))
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

    def _outcomes(self, jobs: Sequence[Claimed], failures: Mapping[str, Failure | None]) -> Outcomes:
        policy, now = self._destination.policy, self._clock.now()
        decided: Outcomes = []
        cooled = False
        for job in jobs:
            failure = failures[job.id]
            if failure is None:
                decided.append((job, _DELIVERED))
                continue
            outcome = outcome_after(failure, job, policy, now=now, u=self._random())
            if isinstance(outcome, Throttled):
                # The limit would apply to the next batch too: one entry's outcome pauses all relays.
                outcome = Throttled(outcome.delay, outcome.error, cools=not cooled)
                cooled = True
            self.parks = self.parks or isinstance(outcome, Parked)
            decided.append((job, outcome))
        return decided

    def _learn(self, answer: Answer, failures: Mapping[str, Failure | None]) -> None:
        """Pause deliveries after repeated failures that concern the whole destination."""
        shared = answer if isinstance(answer, Failure) else None
        if shared is None or any(failure is None for failure in failures.values()):
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


class DestinationCaller:
    """For one destination. Create and use it on the loop's thread."""

    def __init__(self, destination: Destination, clock: Clock) -> None:
        self._destination = destination
        self._clock = clock
        self._threads = ThreadPool(destination.flights, name=f"holdfast-{destination.name}")

    @property
    def exhausted(self) -> bool:
        """True if so many calls hang that no further one should be made."""
        return self._threads.exhausted

    def close(self) -> None:
        self._threads.close()

    async def deliver(self, events: Sequence[OutboxEvent], known: Known) -> tuple[Answer, dict[str, Failure | None]]:
        """Return the answer of the first call, and each event's failure by its job; None means delivered.

        Results are added to `known` as soon as they are certain: this may be cancelled between two calls.
        """
        answer = await self._send(events)
        if not isinstance(answer, Failure):
            known.extend((event, answer.get(event.job)) for event in events)
            return answer, {event.job: failure for event, failure in known}
        if answer.kind is not FailureClass.PERMANENT:
            return answer, {event.job: answer for event in events}
        return answer, await self._isolate(events, answer, known)

    async def _isolate(
        self, events: Sequence[OutboxEvent], refusal: Failure, known: Known
    ) -> dict[str, Failure | None]:
        steps = isolate(events, refusal, known)
        try:
            event = next(steps)
            while True:
                answer = await self._send([event])
                event = steps.send(answer if isinstance(answer, Failure) else answer.get(event.job))
        except StopIteration as end:
            return {event.job: failure for event, failure in end.value}

    async def _send(self, events: Sequence[OutboxEvent]) -> Answer:
        limit = self._destination.timeout
        time = asyncio.timeout(limit)
        try:
            async with time:
                return await (self._await(events) if self._destination.is_async else self._call(events))
        except TimeoutError as error:
            if not time.expired():
                return self._failure(error)
            return Failure(FailureClass.TIMEOUT, error_json("Timeout", f"the delivery took longer than {limit:g} s"))

    async def _await(self, events: Sequence[OutboxEvent]) -> Answer:
        try:
            return _read(events, await self._destination.deliver(list(events)))  # type: ignore[misc]
        except (TimeoutError, asyncio.CancelledError):
            raise
        except BaseException as error:  # SystemExit must not end the worker
            return self._answer_from(events, error)

    async def _call(self, events: Sequence[OutboxEvent]) -> Answer:
        ticket = self._threads.submit(self._call_here, list(events))
        try:
            answer: Answer = await ticket.future
        except asyncio.CancelledError:
            self._threads.abandon(ticket)
            raise
        return answer

    def _call_here(self, events: list[OutboxEvent]) -> Answer:
        """Deliver on the thread. An error is read there too: its body may come from the network."""
        try:
            return _read(events, self._destination.deliver(events))  # type: ignore[misc]
        except BaseException as error:
            return self._answer_from(events, error)

    def _answer_from(self, events: Sequence[OutboxEvent], error: BaseException) -> Answer:
        if isinstance(error, Rejected):
            try:
                return _rejections(events, error)
            except WrongAnswer as wrong:
                error = wrong
        return self._failure(error)

    def _failure(self, error: BaseException) -> Failure:
        if isinstance(error, WrongAnswer):
            logger.error("destination %r: %s; nothing counts as delivered", self._destination.short, error)
        # Read only here: a body can be read once.
        answer = answer_of(error)
        if answer is None and not isinstance(error, (JobOutcome, WrongAnswer)):
            logger.warning("a delivery to %r failed", self._destination.short, exc_info=error)
        return failure_of(error, answer, now=self._clock.now())


def failure_of(error: BaseException, answer: tuple[int, dict[str, str], bytes] | None, *, now: int) -> Failure:
    """Return the failure for a destination's exception, classified by the server's `answer` if it carries one."""
    if answer is not None:
        # An exception is a failure, whatever status it carries.
        return answers.classify(*answer, now=now) or Failure(FailureClass.TRANSIENT, error_text(error))
    found = classify(error)
    if isinstance(found, Snoozed):
        return Failure(FailureClass.RATE_LIMITED, error_text(error), found.delay)
    if isinstance(found, Cancelled):
        return Failure(FailureClass.PERMANENT, error_text(error))
    return found


def answer_of(error: BaseException) -> tuple[int, dict[str, str], bytes] | None:
    """Return the status, headers and body of an exception: ours, or of httpx, requests, aiohttp or urllib."""
    if isinstance(error, DeliveryFailed):
        return error.status, _headers(error.headers), error.body
    response = getattr(error, "response", None)
    for carrier in (response, error):
        for name in ("status_code", "status", "code"):
            status = getattr(carrier, name, None)
            if isinstance(status, int) and not isinstance(status, bool) and 100 <= status < 600:
                return int(status), _headers(getattr(carrier, "headers", None)), _body(carrier)
    return None


def _headers(headers: Any) -> dict[str, str]:
    try:
        return {str(name): str(value) for name, value in headers.items()}
    except Exception:
        return {}


def _body(carrier: Any) -> bytes:
    """Return the body as far as it is available without a long wait."""
    try:
        content = getattr(carrier, "content", None)
        if isinstance(content, bytes):
            return content[:_LONGEST_BODY]
        read = getattr(carrier, "read", None)
        found = read(_LONGEST_BODY) if callable(read) and getattr(carrier, "fp", None) is not None else b""
    except Exception:
        # The response was not read, or its connection is closed: the status is enough.
        return b""
    return found if isinstance(found, bytes) else b""


def _read(events: Sequence[OutboxEvent], answer: object) -> Mapping[str, Failure]:
    if answer is None:
        return {}
    if isinstance(answer, Rejected):
        return _rejections(events, answer)
    raise WrongAnswer(f"it returned {type(answer).__name__}; return None, or Rejected with the ids that were not taken")


def _rejections(events: Sequence[OutboxEvent], answer: Rejected) -> dict[str, Failure]:
    """Return the rejections by job: event ids are unique only per tenant, and a batch has events of several."""
    named: dict[str, set[str]] = {}
    for event in events:
        for name in (event.id, event.job):
            named.setdefault(name, set()).add(event.job)
    if unknown := answer.reasons.keys() - named.keys():
        raise WrongAnswer(f"it rejected {sorted(map(str, unknown))[:3]}, which the batch does not have")
    if shared := sorted(name for name in answer.reasons if len(named[name]) > 1):
        raise WrongAnswer(f"it rejected {shared[:3]}, which is ambiguous: name event.job instead")
    return {
        job: Failure(FailureClass.PERMANENT, error_json("Rejected", str(reason)))
        for name, reason in answer.reasons.items()
        for job in named[name]
    }
