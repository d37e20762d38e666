"""A job whose task a worker does not have is left to those that do."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.rules.retry import RetryPolicy
from tests.patience import SOON

from .worker_kit import Shop, live


@live
async def test_an_unknown_task_is_handed_back_at_no_cost_and_rerouted_once(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop.app
    strange = app.declare("strange")
    runs: list[str] = []

    @app.task
    async def known() -> str:
        runs.append("known")
        return "ran"

    async with shop.working() as worker:
        job = await strange.aenqueue(n=1)
        record = await shop.until_again(job, "no_handler")
        assert (record.attempts, record.crashes, record.state) == (0, 0, "ready")
        # It is not claimed again, however often the worker looks.
        for _ in range(5):
            await worker.poller.run_once()
            worker.outcomes.request_claim()
            assert await (await known.aenqueue()).aresult(SOON) == "ran"
        assert (await job.astatus()).epoch == record.epoch
        explanation = await app.jobs.aexplain(job.id)
        assert "task_unknown" in [reason.code for reason in explanation.reasons]
        assert "'strange'" in explanation.reasons[-1].text
    assert len([r for r in caplog.records if "needs task" in r.getMessage()]) == 1


@live
async def test_a_rerouted_job_is_picked_up_at_once_by_a_worker_that_knows_its_task(shop: Shop) -> None:
    app = shop.app
    elsewhere = Shop(shop.url, shop.clock)
    strange = app.declare("strange")

    @elsewhere.app.task(name="strange")
    async def here(n: int) -> int:
        return n + 1

    try:
        async with shop.working(queues=("default",)):
            job = await strange.aenqueue(n=1)
            await shop.until_again(job, "no_handler")
            # One that comes later finds it as it starts; one that is there already is rung for.
            async with elsewhere.working():
                assert await job.aresult(SOON) == 2
                second = await strange.aenqueue(n=2)
                assert await second.aresult(SOON) == 3
    finally:
        elsewhere.app.close()
    assert (await job.astatus()).attempts == 1


@live
async def test_a_job_that_no_worker_knows_fails_as_such_at_its_deadline_and_never_earlier(shop: Shop) -> None:
    app = shop.app
    strange = app.declare("strange")
    jobs = [
        await strange.options(deadline=60).aenqueue(),
        await strange.options(retry=RetryPolicy(max_age=60)).aenqueue(),
        # Of two limits the earlier counts.
        await strange.options(deadline=60, retry=RetryPolicy(max_age=600)).aenqueue(),
        await strange.options(deadline=600, retry=RetryPolicy(max_age=60)).aenqueue(),
    ]
    async with shop.working(queues=("default",)) as worker:
        for job in jobs:
            await shop.until_again(job, "no_handler")
        await shop.pass_time(59, worker)
        await worker.services.expire()
        assert {(await job.astatus()).state for job in jobs} == {"ready"}
        await shop.pass_time(1, worker)
        await worker.services.expire()
        for job in jobs:
            record = await job.astatus()
            assert (record.state, record.reason) == ("failed", "no_handler")


@live
async def test_a_worker_serves_only_the_queues_of_tasks_that_it_implements(small_shop: Shop) -> None:
    app = small_shop.app
    app.declare("far", queue="elsewhere")

    @app.task(queue="near")
    async def near() -> None: ...

    async with small_shop.working() as worker:
        (row,) = app.workers.list()
        assert row.queues == worker.routes.queues == ("near",)
        assert row.tasks == ("near",)


@live
async def test_a_worker_full_of_unknown_jobs_still_runs_what_it_knows(shop: Shop) -> None:
    app = shop.app
    strange = app.declare("strange")

    @app.task
    async def known() -> str:
        return "ran"

    await app.aenqueue_many([strange.job(n=n) for n in range(50)])
    job = await known.aenqueue()
    async with shop.working(concurrency=2):
        assert await job.aresult(SOON) == "ran"
        await asyncio.sleep(0)
    counts = {(c.state, c.jobs) for c in await app.jobs.acounts()}
    assert counts == {("ready", 50), ("succeeded", 1)}
