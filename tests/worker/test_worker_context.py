"""What a handler and its log know of their job."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from contextvars import copy_context
from functools import partial

import pytest

from holdfast import Context, SyncContext, current
from holdfast.errors import NoCurrentJob
from holdfast.telemetry import JobLogFilter
from tests.patience import SOON

from . import isolated_tasks
from .worker_kit import AT_ONCE, Shop, live


@live
async def test_log_records_carry_job_task_and_attempt(small_shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    app = small_shop.app
    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(JobLogFilter())
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


def job_below() -> str:
    return current().id


async def job_below_async() -> str:
    return current().id


@live
async def test_the_current_context_is_that_of_the_handler_in_all_that_it_calls(shop: Shop) -> None:
    @shop.app.task
    async def on_loop(ctx: Context) -> set[str]:
        assert current() is ctx
        return {
            job_below(),
            await asyncio.create_task(job_below_async()),
            await asyncio.to_thread(job_below),
            await ctx.step("def", job_below),
            await ctx.step("async", job_below_async),
            *await ctx.gather(ctx.step("one", job_below), ctx.step("two", job_below)),
        }

    @shop.app.task
    def on_thread(ctx: SyncContext) -> set[str]:
        assert current() is ctx
        branches = ctx.gather(lambda: ctx.step("one", job_below), lambda: ctx.step("two", job_below))
        return {job_below(), ctx.step("def", job_below), *branches}

    @shop.app.task
    async def without_parameter() -> set[str]:
        context = current()
        assert isinstance(context, Context)
        return {await context.step("one", job_below), current().id}

    async with shop.working():
        for task in (on_loop, on_thread, without_parameter):
            job = await task.aenqueue()
            assert await job.aresult(SOON) == {job.id}


@live
async def test_the_current_context_is_that_of_the_handler_in_a_child_process(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", shop.url)
    app = shop.borrow(isolated_tasks.app)
    async with shop.working():
        for task in (isolated_tasks.names_itself, isolated_tasks.names_itself_async, isolated_tasks.names_itself):
            job = await app.aenqueue(task.job())
            assert set(await job.aresult(SOON)) == {job.id}


@live
async def test_what_outlives_its_handler_has_no_current_job(small_shop: Shop) -> None:
    go, left = asyncio.Event(), []

    async def later() -> str:
        await go.wait()
        return job_below()

    @small_shop.app.task
    async def leaves() -> None:
        left.append(asyncio.create_task(later()))

    async with small_shop.working():
        await (await leaves.aenqueue()).aresult(SOON)
        go.set()
        with pytest.raises(NoCurrentJob, match="the job that started this code has ended; await or join"):
            await left[0]


def test_outside_of_a_run_there_is_no_current_job() -> None:
    with pytest.raises(NoCurrentJob, match=r"no job runs here; call holdfast.current\(\) in a handler") as raised:
        current()
    assert raised.value.code == "no_current_job"


@live
async def test_a_thread_of_ones_own_has_the_current_job_if_it_runs_in_a_copy_of_the_context(small_shop: Shop) -> None:
    @small_shop.app.task
    def on_thread() -> list[str]:
        found: list[str] = []

        def look() -> None:
            try:
                found.append(job_below())
            except NoCurrentJob as none:
                found.append(none.code)

        for target in (look, partial(copy_context().run, look)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        return found

    async with small_shop.working():
        job = await on_thread.aenqueue()
        assert await job.aresult(SOON) == ["no_current_job", job.id]


@live
async def test_inline_jobs_have_a_current_context_and_their_callers_have_none(small_shop: Shop) -> None:
    app = small_shop.app

    @app.task
    def inner() -> str:
        return job_below()

    @app.task
    async def outer(ctx: Context) -> list[str]:
        return [(await inner.aenqueue()).result(), job_below(), "same" if current() is ctx else "other"]

    with app.inline():
        job = await outer.aenqueue()
        inside, mine, same = await job.aresult()
        assert (mine, same) == (job.id, "same")
        assert inside != mine
        with pytest.raises(NoCurrentJob):
            current()


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
