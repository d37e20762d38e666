"""What a worker says of itself to probes."""

from __future__ import annotations

import asyncio

import pytest

from .worker_kit import Shop, live


@live
async def test_a_worker_is_ready_between_its_start_and_its_stop(shop: Shop) -> None:
    worker = shop.worker()
    assert (worker.condition().is_alive, worker.condition().is_ready) == (True, False)
    assert worker.condition().text == "the worker is starting"
    await worker.start()
    assert (worker.condition().is_alive, worker.condition().is_ready, worker.condition().text) == (True, True, "ok")
    await worker.stop(grace=0)
    assert (worker.condition().is_alive, worker.condition().is_ready) == (True, False)


@live
async def test_an_idle_claim_loop_turns_several_times_in_a_lease(small_shop: Shop) -> None:
    async with small_shop.working(lease=2.0) as worker:
        writes = []
        for _ in range(3):
            before = worker.claimer.turned_at
            small_shop.clock.advance(0.1)
            while worker.claimer.turned_at == before:
                await asyncio.sleep(0.01)
            writes.append(small_shop.store.writes)
        assert writes[1] == writes[2]


@live
async def test_a_claim_loop_that_has_ended_is_noticed_at_once(shop: Shop) -> None:
    async with shop.working() as worker:
        worker._recorders[0].cancel()
        while worker.condition().is_alive:
            await asyncio.sleep(0)


@live
async def test_a_claim_loop_that_is_stuck_is_noticed_after_a_lease(shop: Shop) -> None:
    @shop.app.task
    async def anything() -> None: ...

    begun, forever = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        await forever.wait()

    async with shop.working() as worker:
        shop.store.before = hang
        anything.enqueue()
        await begun.wait()
        await shop.pass_time(29, worker)
        assert worker.condition().is_ready
        await shop.pass_time(2, worker)
        assert not worker.condition().is_alive
        assert worker.condition().text == "the claim loop has not turned for 31 s"
        forever.set()
        while not worker.condition().is_ready:
            await asyncio.sleep(0)


@live
async def test_a_lease_that_nothing_renews_is_noticed_when_it_ends(shop: Shop) -> None:
    async with shop.working() as worker:
        await shop.pass_time_silently(26, worker)
        worker.outcomes.request_claim()
        await asyncio.sleep(0)
        assert (worker.condition().is_alive, worker.condition().is_ready) == (True, False)
        await shop.pass_time_silently(5, worker)
        worker.outcomes.request_claim()
        await asyncio.sleep(0)
        assert not worker.condition().is_alive
        assert worker.condition().text == "the lease was not renewed for 31 s"


@pytest.mark.parametrize("passed", [1, 100])
@live
async def test_a_worker_without_its_store_is_alive_and_not_ready(shop: Shop, passed: float) -> None:
    async with shop.working() as worker:
        shop.store.down = True
        await shop.pass_time(passed, worker)
        assert (worker.condition().is_alive, worker.condition().is_ready) == (True, False)
        assert worker.condition().text == "the store is unavailable"
        shop.store.down = False
        while not worker.condition().is_ready:
            await shop.beat(worker)
