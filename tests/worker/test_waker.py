"""The waker: ends waits whose time is over, when it is over, and costs nothing before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Context
from holdfast.worker.maintenance.services import TimeoutWaker
from tests.patience import SOON

from .worker_kit import Shop, live


def waits(shop: Shop, **terms: Any) -> Any:
    @shop.app.task(name="waits")
    async def waits(ctx: Context) -> Any:
        return await ctx.wait_for("go", **terms)

    return waits


async def suspended(shop: Shop, job: Any) -> Any:
    return await shop.until(job, lambda record: record.state == "suspended")


@live
async def test_it_rests_while_nothing_waits_and_writes_nothing(shop: Shop) -> None:
    waker = TimeoutWaker(shop.store, 1.0)
    assert await waker.run_once() is None
    assert shop.store.writes == 0


@live
async def test_it_sleeps_until_the_first_timeout_and_no_longer_than_its_interval(shop: Shop) -> None:
    task = waits(shop, timeout=10)
    waker = TimeoutWaker(shop.store, 5.0)
    async with shop.working() as worker:
        job = await task.aenqueue()
        await suspended(shop, job)
        assert await waker.run_once() is None
        await shop.pass_time(8, worker)
        assert await waker.run_once() == pytest.approx(2.0)
        await shop.pass_time(2, worker)
        await waker.run_once()
        record = await shop.until_ended(job)
        assert (record.state, record.reason) == ("failed", "wait_timeout")
        assert await waker.run_once() is None


@live
async def test_a_worker_ends_the_waits_of_jobs_by_itself(real_shop: Shop) -> None:
    task = waits(real_shop, timeout=0.05, on_timeout="resume", default="nobody came")
    async with real_shop.working(wake_interval=0.05):
        job = await task.aenqueue()
        assert await job.aresult(SOON) == "nobody came"


@live
async def test_one_that_is_turned_off_ends_nothing(real_shop: Shop) -> None:
    task = waits(real_shop, timeout=0)
    async with real_shop.working(wake_interval=0.0):
        job = await task.aenqueue()
        await suspended(real_shop, job)
        await asyncio.sleep(0)
        assert (await job.astatus()).state == "suspended"
    async with real_shop.working(wake_interval=0.05):
        assert (await real_shop.until_ended(job)).state == "failed"


@live
async def test_more_than_a_page_at_once_is_ended_without_a_rest(shop: Shop) -> None:
    task = waits(shop, timeout=1)
    waker = TimeoutWaker(shop.store, 1.0)
    async with shop.working(concurrency=50) as worker:
        jobs = await shop.app.aenqueue_many([task.job() for _ in range(120)])
        for job in jobs:
            await suspended(shop, job)
        await shop.pass_time(2, worker)
        assert await waker.run_once() == 0.0
        await waker.run_once()
        assert {(await job.astatus()).state for job in jobs} == {"failed"}
