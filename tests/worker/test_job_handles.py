"""What can be done with the handle of a job, on both stores."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Context, SyncContext
from holdfast.errors import BlockingCall, ConfigError, JobFailed, NotFound
from tests.patience import SOON

from .worker_kit import AT_ONCE, Shop, live


@live
async def test_awaiting_a_job_gives_its_result(shop: Shop) -> None:
    @shop.app.task
    async def double(n: int) -> int:
        return 2 * n

    @shop.app.task(max_attempts=1)
    def broken() -> None:
        raise ValueError("no")

    async with shop.working():
        jobs = await shop.app.aenqueue_many([double.job(1), double.job(2)])
        assert await asyncio.gather(*jobs) == [2, 4]
        assert await shop.app.job(jobs[0].id) == 2
        with pytest.raises(JobFailed, match="ValueError: no"):
            await (await broken.aenqueue())


@live
async def test_awaiting_a_job_inside_of_a_task_is_refused_as_any_wait_is(shop: Shop) -> None:
    @shop.app.task
    async def child() -> None: ...

    @shop.app.task(max_attempts=1)
    async def parent() -> str:
        try:
            await (await child.aenqueue())
        except BlockingCall as refused:
            return str(refused)
        return ""

    async with shop.working():
        assert "use ctx.wait_for(job)" in await (await parent.aenqueue()).aresult(SOON)


@live
async def test_a_failed_job_is_retried_by_its_handle(shop: Shop) -> None:
    runs: list[int] = []

    @shop.app.task(max_attempts=1, retry=AT_ONCE)
    async def fails_twice(ctx: Context) -> int:
        runs.append(ctx.job.generation)
        if len(runs) < 3:
            raise ValueError("not yet")
        return len(runs)

    async with shop.working():
        job = await fails_twice.aenqueue()
        assert await job.await_(SOON) == "failed"
        assert await job.aretry(actor="ada", reason="the bank is back") is True
        assert await job.await_(SOON) == "failed"
        assert await asyncio.to_thread(job.retry) is True
        assert await job.aresult(SOON) == 3
    assert runs == [0, 1, 2]
    said = [(entry.actor, entry.reason) for entry in shop.app.audit.list() if entry.target == job.id]
    assert ("ada", "the bank is back") in said


@live
async def test_a_job_is_signalled_and_its_stream_is_read_by_its_handle(shop: Shop) -> None:
    @shop.app.task
    async def approved(ctx: Context) -> list[int]:
        found = [await ctx.wait_for("go", type=int), await ctx.wait_for("go", type=int)]
        await ctx.emit("done")
        return found

    async with shop.working():
        job = await approved.aenqueue()
        await shop.until(job, lambda r: r.reason == "signal")
        first = await job.asignal("go", 1, key="one")
        assert (await job.asignal("go", 1, key="one")).again
        second = await asyncio.to_thread(job.signal, "go", 2)
        assert (first.job_id, second.seq) == (job.id, first.seq + 1)
        said = [frame.data async for frame in job.astream(timeout=SOON)]
        assert await job.aresult(SOON) == [1, 2]
    assert said == ["done"]
    assert [frame.data for frame in await asyncio.to_thread(lambda: list(job.stream()))] == said


def test_a_job_is_explained_and_cancelled_by_its_handle(shop: Shop) -> None:
    @shop.app.task
    def later() -> None: ...

    job = later.options(delay=60).enqueue()
    assert [reason.code for reason in job.explain().reasons] == [
        reason.code for reason in shop.app.jobs.explain(job.id).reasons
    ]
    assert asyncio.run(job.aexplain()).id == job.id
    assert job.cancel(reason="not wanted", actor="ada") == "cancelled"
    assert job.status().reason == "not wanted"


def test_the_handle_of_a_tenant_reaches_no_job_of_another(shop: Shop) -> None:
    @shop.app.task
    def work() -> None: ...

    job = work.options(tenant="acme").enqueue()
    foreign = shop.app.scoped("other").job(job.id)
    for act in (foreign.explain, foreign.retry, lambda: foreign.signal("go"), lambda: list(foreign.stream(timeout=0))):
        with pytest.raises(NotFound):
            act()
    assert shop.app.scoped("acme").job(job.id).explain().id == job.id


def test_an_inline_job_is_awaited_and_has_a_stream_but_nothing_to_act_on(small_shop: Shop) -> None:
    app = small_shop.app

    @app.task
    def says(ctx: SyncContext) -> str:
        ctx.emit("here")
        return "done"

    async def result() -> str:
        return await (await says.aenqueue())

    with app.inline():
        job = says.enqueue()
        assert [frame.data for frame in job.stream()] == ["here"]
        assert asyncio.run(result()) == "done"
        for act in (job.retry, job.explain, lambda: job.signal("go")):
            with pytest.raises(ConfigError, match="inline jobs are not stored"):
                act()
