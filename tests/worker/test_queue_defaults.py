"""What a queue's settings mean to a worker: the call's word first, then the task's, then the queue's."""

from __future__ import annotations

import asyncio

from holdfast import RetryPolicy
from holdfast.clock import SECOND

from .worker_kit import Shop, live

FIXED = RetryPolicy(kind="fixed", initial=77.0, jitter="none")


@live
async def test_a_queues_retry_policy_serves_those_that_have_none(shop: Shop) -> None:
    @shop.app.task
    async def plain() -> None:
        raise ValueError

    @shop.app.task(retry=RetryPolicy(kind="fixed", initial=5.0, jitter="none"))
    async def own() -> None:
        raise ValueError

    await shop.app.queues.aset("default", retry=FIXED)
    async with shop.working():
        first, second = await plain.aenqueue(), await own.aenqueue()
        third = await plain.options(retry=RetryPolicy(kind="fixed", initial=9.0, jitter="none")).aenqueue()
        waits = [(await shop.until_again(job, "retry")).not_before - shop.clock.now() for job in (first, second, third)]
    assert waits == [77 * SECOND, 5 * SECOND, 9 * SECOND]


@live
async def test_a_queues_timeout_ends_a_run_that_has_none_of_its_own(shop: Shop) -> None:
    started = asyncio.Event()

    @shop.app.task(max_attempts=1)
    async def sleeper() -> None:
        started.set()
        await asyncio.Event().wait()

    await shop.app.queues.aset("default", timeout=10)
    async with shop.working() as worker:
        job = await sleeper.aenqueue()
        await started.wait()
        await shop.pass_time(10, worker)
        record = await shop.until_ended(job)
    assert (record.state, record.reason) == ("failed", "timeout")


@live
async def test_a_change_reaches_a_worker_that_runs(shop: Shop) -> None:
    @shop.app.task
    async def plain() -> None:
        raise ValueError

    async with shop.working() as worker:
        await shop.app.queues.aset("default", retry=FIXED)
        await worker.poller.run_once()
        record = await shop.until_again(await plain.aenqueue(), "retry")
    assert record.not_before - shop.clock.now() == 77 * SECOND
