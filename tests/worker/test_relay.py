"""Relays in workers: what they claim, beside whom, and what becomes of it when they are stopped."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import holdfast
from holdfast.model import OutboxEvent
from holdfast.model.outbox import OutboxCounts
from holdfast.model.outcomes import Parked
from holdfast.outcomes import Rejected
from holdfast.rules.retry import RetryPolicy
from tests.patience import SOON

from .worker_kit import Shop, live

AT_ONCE = RetryPolicy(kind="none", max_age=None)


class Sink:
    """A destination in the test's hands: each batch is seen, and waits for its answer where `holds`."""

    def __init__(self, shop: Shop, *, holds: bool = False, **options: Any) -> None:
        self.shop = shop
        self.seen: asyncio.Queue[list[OutboxEvent]] = asyncio.Queue()
        self.answers: list[Any] = []
        self.open = asyncio.Event()
        if not holds:
            self.open.set()
        shop.app.destination("cloud", **options)(self.deliver)

    async def deliver(self, events: list[OutboxEvent]) -> Rejected | None:
        self.seen.put_nowait(events)
        await self.open.wait()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def put(self, *data: Any, **options: Any) -> list[holdfast.Job[None]]:
        return await self.shop.app.outbox("cloud").aput_many(data, **options)

    async def batch(self) -> list[Any]:
        return [event.data for event in await self.seen.get()]

    async def until(self, **wanted: int) -> OutboxCounts:
        """Wait until the outbox stands so."""
        listener = self.shop.app.open().wakeups.listen(["finished", "queue:outbox.cloud"])
        try:
            while True:
                counts = (await self.shop.app.outbox.alist() or [OutboxCounts("cloud")])[0]
                if all(getattr(counts, name) == n for name, n in wanted.items()):
                    return counts
                await listener.await_ring(0.1)
        finally:
            listener.close()


@live
async def test_what_is_put_is_delivered_at_once(shop: Shop) -> None:
    sink = Sink(shop)
    async with shop.working():
        await sink.put("a", "b")
        assert await sink.batch() == ["a", "b"]
        await sink.until(delivered=2)


@live
async def test_two_batches_are_under_way_at_once_and_no_more(shop: Shop) -> None:
    sink = Sink(shop, holds=True, batch=2)
    async with shop.working():
        await sink.put(*range(10))
        assert sorted([await sink.batch(), await sink.batch()]) == [[0, 1], [2, 3]]
        await sink.until(sending=4, pending=6)
        sink.open.set()
        await sink.until(delivered=10)


@live
async def test_a_plain_task_in_the_same_worker_runs_beside(shop: Shop) -> None:
    sink = Sink(shop, holds=True)

    @shop.app.task
    async def work() -> str:
        return "done"

    async with shop.working():
        await sink.put("a")
        await sink.batch()
        assert await (await work.aenqueue()).aresult(SOON) == "done"
        sink.open.set()
        await sink.until(delivered=1)


@live
async def test_a_destination_that_is_not_ready_claims_nothing(shop: Shop) -> None:
    logged_in = asyncio.Event()
    asked = asyncio.Queue[None]()

    async def ready() -> bool:
        asked.put_nowait(None)
        return logged_in.is_set()

    sink = Sink(shop, ready=ready)
    async with shop.working() as worker:
        (job,) = await sink.put("a")
        await asked.get()
        await worker.relays.look()
        await asked.get()
        assert (await job.astatus()).epoch == 0
        logged_in.set()
        await worker.relays.look()
        await sink.until(delivered=1)


@live
async def test_a_check_for_readiness_that_fails_is_a_no(shop: Shop) -> None:
    def ready() -> bool:
        raise RuntimeError("who knows")

    sink = Sink(shop, ready=ready)
    async with shop.working() as worker:
        (job,) = await sink.put("a")
        await worker.relays.look()
        assert (await job.astatus()).state == "ready"


@live
async def test_of_exclusive_relays_only_the_leader_delivers_and_another_takes_over(shop: Shop) -> None:
    sink = Sink(shop, exclusive=True)
    first, second = shop.worker(), shop.worker()
    await first.start()
    await second.start()
    try:
        await first.services.leader.run_once()
        await second.services.leader.run_once()
        assert second.relays.all[0]._leads("outbox.cloud") is False
        await sink.put("a")
        first.relays.request_claim()
        await sink.until(delivered=1)
        await first.stop(grace=0)
        await second.services.leader.run_once()
        await sink.put("b")
        second.relays.request_claim()
        await sink.until(delivered=2)
    finally:
        await second.stop(grace=0)


@live
async def test_after_three_failures_in_a_row_the_destination_is_left_in_peace_and_then_tried_once(shop: Shop) -> None:
    sink = Sink(shop, batch=1)
    sink.answers = [ConnectionError("down")] * 4
    async with shop.working() as worker:
        relay = worker.relays.all[0]
        await sink.put(*range(8))
        for _ in range(3):
            await sink.batch()
        await sink.until(pending=8, sending=0)
        assert relay.delivery.rest > 0
        worker.relays.request_claim()
        await asyncio.sleep(0)
        assert sink.seen.empty()
        await shop.pass_time(80, worker)
        worker.relays.request_claim()
        await sink.batch()
        await sink.until(sending=0)
        assert relay.delivery.rest > 0
        await shop.pass_time(300, worker)
        worker.relays.request_claim()
        await sink.until(delivered=8)


# -- ends


@live
async def test_a_batch_that_ends_within_the_grace_is_recorded(shop: Shop) -> None:
    sink = Sink(shop, holds=True)
    worker = shop.worker()
    await worker.start()
    (job,) = await sink.put("a")
    await sink.batch()
    stopping = asyncio.create_task(worker.stop(grace=10))
    await asyncio.sleep(0)
    sink.open.set()
    await stopping
    assert (await job.astatus()).state == "succeeded"


@live
async def test_a_batch_that_does_not_is_handed_back_at_no_cost(shop: Shop) -> None:
    sink = Sink(shop, holds=True)
    async with shop.working():
        (job,) = await sink.put("a")
        await sink.batch()
    entry = await job.astatus()
    assert (entry.state, entry.reason, entry.attempts) == ("ready", "shutdown", 0)


def hang_at(shop: Shop, last: str) -> asyncio.Event:
    """A destination that refuses what is bad and never answers to the last; set when that has come alone."""
    reached = asyncio.Event()

    @shop.app.destination("cloud")
    async def deliver(events: list[OutboxEvent]) -> None:
        if [event.data for event in events] == [last]:
            reached.set()
            await asyncio.Event().wait()
        if any("bad" in event.data for event in events):
            raise holdfast.outcomes.DeliveryFailed(422)

    return reached


@live
async def test_what_was_answered_before_a_shutdown_is_recorded_and_only_the_rest_is_handed_back(shop: Shop) -> None:
    reached = hang_at(shop, "next")
    async with shop.working():
        jobs = await shop.app.outbox("cloud").aput_many(["bad", "good", "also bad", "next", "last"])
        await reached.wait()
    entries = [await job.astatus() for job in jobs]
    assert [entry.state for entry in entries] == ["failed", "succeeded", "failed", "ready", "ready"]
    assert {(entry.reason, entry.attempts) for entry in entries[3:]} == {("shutdown", 0)}


@live
async def test_what_is_refused_is_handed_back_too_where_a_shutdown_comes_before_a_success(shop: Shop) -> None:
    reached = hang_at(shop, "good")
    async with shop.working():
        jobs = await shop.app.outbox("cloud").aput_many(["bad", "good"])
        await reached.wait()
    assert {(await job.astatus()).reason for job in jobs} == {"shutdown"}


@live
async def test_an_answer_that_comes_with_the_end_of_the_grace_counts(shop: Shop) -> None:
    @shop.app.destination("cloud")
    async def last(events: list[OutboxEvent]) -> None:
        worker.relays.stop("shutdown")

    async with shop.working() as worker:
        (job,) = await shop.app.outbox("cloud").aput_many(["a"])
        assert (await shop.until_ended(job)).state == "succeeded"


@live
async def test_a_worker_that_is_fenced_hands_its_batch_back_and_goes_on_after_its_next_beat(shop: Shop) -> None:
    sink = Sink(shop, holds=True)
    async with shop.working() as worker:
        (job,) = await sink.put("a")
        await sink.batch()
        worker.lease._fence("the test says so")
        await shop.until(job, lambda entry: entry.reason == "fenced")
        sink.open.set()
        await shop.beat(worker)
        assert await sink.batch() == ["a"]
        await sink.until(delivered=1)


@live
async def test_a_beat_does_not_take_a_batch_for_an_orphan(shop: Shop) -> None:
    sink = Sink(shop, holds=True)
    async with shop.working() as worker:
        (job,) = await sink.put("a")
        await sink.batch()
        for _ in range(3):
            assert await shop.beat(worker)
        sink.open.set()
        await sink.until(delivered=1)
        assert (await job.astatus()).attempts == 1


@live
async def test_the_batch_of_a_worker_that_was_declared_dead_is_delivered_again_and_its_record_counts_no_more(
    shop: Shop,
) -> None:
    sink = Sink(shop, holds=True)
    async with shop.working() as worker:
        old = worker.id
        jobs = await sink.put(*range(5))
        first = await sink.seen.get()
        assert await asyncio.to_thread(shop.app.workers.rescue, old) == 5
        assert not await shop.beat(worker)
        shop.clock.advance(10)
        worker.relays.request_claim()
        again = await sink.seen.get()
        assert worker.id != old
        # All at once, although each was lost once: their like cannot take a worker down.
        assert sorted(event.id for event in again) == sorted(event.id for event in first)
        sink.open.set()
        await sink.until(delivered=5)
        assert sink.seen.empty()
    assert {(await job.astatus()).attempts for job in jobs} == {2}


@live
async def test_a_lost_reply_of_a_claim_is_read_again(shop: Shop) -> None:
    sink = Sink(shop)
    async with shop.working() as worker:
        await worker.relays.look()
        shop.store.after = _break_once
        (job,) = await sink.put("a")
        await sink.until(delivered=1)
        assert (await job.astatus()).attempts == 1


async def _break_once() -> None:
    raise holdfast.OutcomeUnknown("the connection broke at COMMIT")


@live
async def test_fates_that_a_store_does_not_take_are_kept_until_it_does(shop: Shop) -> None:
    sink = Sink(shop, holds=True)
    async with shop.working():
        (job,) = await sink.put("a")
        await sink.batch()
        shop.store.down = True
        sink.open.set()
        await asyncio.sleep(0.05)
        shop.store.down = False
        await sink.until(delivered=1)
        assert (await job.astatus()).attempts == 1
        assert sink.seen.empty()


@live
async def test_a_fate_that_the_store_refuses_fails_its_entry_and_spares_its_neighbours(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Parked("half a pair: \udcff", "{}")
    monkeypatch.setattr("holdfast.worker.outbox.delivery.outcome_after", lambda *_, **__: refused)
    sink = Sink(shop, holds=True)
    async with shop.working() as worker:
        jobs = await sink.put("good", "bad", "also good")
        events = {event.data: event.id for event in await sink.seen.get()}
        sink.answers = [Rejected({events["bad"]: "odd"})]
        sink.open.set()
        entries = [await shop.until_ended(job) for job in jobs]
        assert [entry.state for entry in entries] == ["succeeded", "failed", "succeeded"]
        assert (entries[1].reason, entries[1].attempts) == ("unrecordable", 1)
        await shop.until(jobs[1], lambda _: not worker.relays.all[0].held)
    assert "cannot be stored" in caplog.text


@live
async def test_a_def_destination_that_hangs_is_given_up_and_its_batch_tried_again(shop: Shop) -> None:
    begun, ends = asyncio.Queue[int](), threading.Event()
    loop, hangs = asyncio.get_running_loop(), [True]

    @shop.app.destination("cloud", timeout=0.05, retry=AT_ONCE)
    def cloud(events: list[OutboxEvent]) -> None:
        loop.call_soon_threadsafe(begun.put_nowait, events[0].attempt)
        if hangs and hangs.pop():
            ends.wait(SOON)

    async with shop.working() as worker:
        job = await shop.app.outbox("cloud").aput("a")
        assert job is not None
        # On a busy machine the time may be over before anything has begun.
        first = await begun.get()
        assert await begun.get() > first
        await shop.until_ended(job)
        ends.set()
        assert worker.relays.all[0].delivery.may_begin(0)


# -- order


@live
async def test_events_of_one_key_wait_for_an_earlier_one_that_failed_and_those_of_others_do_not(shop: Shop) -> None:
    sink = Sink(shop, ordered=True, batch=2)
    sink.answers = [ConnectionError("down")]
    async with shop.working() as worker:
        out = holdfast.model.Outgoing
        await sink.put(*(out(f"{key}{n}", key=key) for n in range(3) for key in "ab"), out("c"))
        assert await sink.batch() == ["a0", "b0"]
        assert await sink.batch() == ["c"]
        await sink.until(sending=0, delivered=1)
        await shop.pass_time(80, worker)
        worker.relays.request_claim()
        await sink.until(delivered=7)
    delivered = [event.data for event in _drain(sink)]
    assert [data for data in delivered if data.startswith("a")] == ["a0", "a1", "a2"]
    assert [data for data in delivered if data.startswith("b")] == ["b0", "b1", "b2"]


def _drain(sink: Sink) -> list[OutboxEvent]:
    found: list[OutboxEvent] = []
    while not sink.seen.empty():
        found += sink.seen.get_nowait()
    return found


@live
async def test_two_workers_keep_the_order_of_a_key(shop: Shop) -> None:
    sink = Sink(shop, holds=True, ordered=True, batch=2)
    async with shop.working() as first, shop.working() as second:
        out = holdfast.model.Outgoing
        await sink.put(*(out(n, key="k") for n in range(6)))
        assert await sink.batch() == [0, 1]
        for worker in (first, second):
            await worker.relays.look()
        await sink.until(sending=2, parked=4)
        assert sink.seen.empty()
        sink.open.set()
        await sink.until(delivered=6)
    assert [event.data for event in _drain(sink)] == [2, 3, 4, 5]


@live
async def test_what_waits_behind_a_cancelled_event_goes_on(shop: Shop) -> None:
    sink = Sink(shop, ordered=True, batch=1)
    sink.answers = [ConnectionError("down")]
    async with shop.working() as worker:
        first, second = await sink.put(*(holdfast.model.Outgoing(n, key="k") for n in range(2)))
        await sink.until(parked=1, sending=0)
        assert (await second.astatus()).reason == "order"
        await first.acancel()
        await worker.relays.release_stalled()
        await sink.until(delivered=1)


@pytest.mark.parametrize("queues", [("default",), ("outbox.cloud",)])
def test_a_worker_serves_the_outboxes_that_it_is_asked_for(small_shop: Shop, queues: tuple[str, ...]) -> None:
    @live
    async def check() -> None:
        Sink(small_shop)
        async with small_shop.working(queues=queues) as worker:
            assert [relay.queue for relay in worker.relays.all] == [q for q in queues if q.startswith("outbox")]
            assert "outbox.cloud" not in worker.routes.queues
            (known,) = small_shop.app.workers.list()
            assert tuple(known.queues) == queues

    check()
