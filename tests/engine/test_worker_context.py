"""What a handler and its log know of their job."""

from __future__ import annotations

import json
import logging

import pytest

from holdfast import Context, SyncContext
from holdfast.telemetry import JobFilter
from tests.patience import SOON

from . import isolated_tasks
from .worker_kit import AT_ONCE, Shop, live


@live
async def test_log_records_carry_job_task_and_attempt(small_shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    app = small_shop.app
    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(JobFilter())
    mine = logging.getLogger("mine")

    @app.task(max_attempts=2, retry=AT_ONCE)
    async def here(ctx: Context) -> None:
        mine.info("here")
        ctx.log.info("by context")
        if ctx.attempt == 1:
            raise ValueError("first")

    @app.task
    def on_thread(ctx: SyncContext) -> None:
        mine.info("on thread")
        ctx.log.info("by context")

    async with small_shop.working():
        first, second = await here.aenqueue(), await on_thread.aenqueue()
        await first.await_(SOON)
        await second.await_(SOON)
    mine.info("outside")
    said = [(r.getMessage(), r.job, r.task, r.attempt) for r in caplog.records]  # type: ignore[attr-defined]
    for attempt in (1, 2):
        assert ("here", first.id, "here", attempt) in said
        assert ("by context", first.id, "here", attempt) in said
    assert ("on thread", second.id, "on_thread", 1) in said
    assert ("by context", second.id, "on_thread", 1) in said
    assert any(
        text.startswith(f"job {first.id} (here) failed in") and about == [first.id, "here", 1] for text, *about in said
    )
    assert ("outside", "", "", "") in said


@live
async def test_a_failure_in_a_child_process_is_logged_with_the_line_that_failed(
    small_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = small_shop.borrow(isolated_tasks.app)
    async with small_shop.working():
        for kind in ("unheard of", "exit", "fail"):
            job = await app.aenqueue(isolated_tasks.says.options(max_attempts=1).job(kind))
            assert await job.await_(SOON) == "failed"
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(said) == 3
    assert "raise ValueError(kind)" in said[0]
    assert "SystemExit: 3" in said[1]
    # What a handler says on purpose needs no traceback.
    assert "Fail: no use" in said[2]
    assert "Traceback" not in said[2]


@live
async def test_a_job_enqueued_by_a_job_belongs_to_the_same_tenant(shop: Shop) -> None:
    app = shop.app

    @app.task
    async def child(n: int) -> int:
        return n

    @app.task
    async def parent(ctx: Context) -> list[str]:
        first = await ctx.enqueue(child.job(1))
        other = await ctx.enqueue(child.options(tenant="other").job(2))
        return [first.id, other.id]

    @app.task
    def parent_on_thread(ctx: SyncContext) -> list[str]:
        return [ctx.enqueue(child.job(1)).id, ctx.enqueue(child.options(tenant="other").job(2)).id]

    async with shop.working():
        for task in (parent, parent_on_thread):
            job = await task.options(tenant="acme").aenqueue()
            ids = await job.aresult(SOON)
            assert [(await app.jobs.aget(i)).tenant for i in ids] == ["acme", "other"]
            for i in ids:
                await app.jobs.await_(i, SOON)


@live
async def test_the_fence_grows_with_each_owner(shop: Shop) -> None:
    app = shop.app
    fences: list[str] = []

    @app.task(max_attempts=3, retry=AT_ONCE)
    async def fails(ctx: Context) -> None:
        fences.append(ctx.fence)
        raise ValueError

    async with shop.working():
        job = await fails.aenqueue()
        await job.await_(SOON)
    ids, numbers = zip(*(fence.split(":") for fence in fences), strict=True)
    assert set(ids) == {job.id}
    epochs = [int(number) for number in numbers]
    assert epochs == sorted(set(epochs))
    assert len(epochs) == 3


@live
async def test_the_error_of_a_failed_job_names_the_line_that_failed(small_shop: Shop) -> None:
    app = small_shop.app

    @app.task(max_attempts=1)
    def fails() -> None:
        raise LookupError("no such thing")

    async with small_shop.working():
        record = await small_shop.until_ended(await fails.aenqueue())
    error = json.loads(record.error or "")
    assert (error["type"], error["message"]) == ("LookupError", "no such thing")
    assert "in fails" in error["traceback"]


@live
async def test_an_isolated_job_cannot_enqueue_into_a_database_in_memory(small_shop: Shop) -> None:
    app = small_shop.borrow(isolated_tasks.app)
    async with small_shop.working():
        job = await app.aenqueue(isolated_tasks.enqueues.job())
        record = await small_shop.until_ended(job)
    assert record.state == "failed"
    assert "cannot reach a database in memory" in str(record.error)
