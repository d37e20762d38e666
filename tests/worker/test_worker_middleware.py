"""Middleware stands around every kind of handler, and takes nothing away from it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Fail, SyncContext
from tests.patience import SOON

from . import isolated_tasks, wrapped_tasks
from .worker_kit import Shop, live


@live
async def test_middleware_wraps_every_kind_of_task_in_order_and_sees_the_context(small_shop: Shop) -> None:
    app = small_shop.app
    seen: list[str] = []

    @app.middleware
    async def outer(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        seen.append(f"outer {ctx.job.task} {ctx.attempt}")
        result = await call()
        seen.append(f"outer got {result}")
        return result

    @app.middleware
    async def inner(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        seen.append(f"inner {ctx.id == current[0]}")
        return await call()

    @app.task
    async def here() -> int:
        return 1

    @app.task
    def on_thread() -> int:
        return 2

    current = [""]
    requests = {"here": here.job(), "on_thread": on_thread.job()}
    async with small_shop.working() as worker:
        for (name, request), result in zip(requests.items(), (1, 2), strict=True):
            seen.clear()
            worker.state.closing = True
            job = await app.aenqueue(request)
            current[0] = job.id
            worker.state.closing = False
            worker.outcomes.request_claim()
            assert await job.aresult(SOON) == result
            assert seen == [f"outer {name} 1", "inner True", f"outer got {result}"]


@live
async def test_middleware_can_fail_a_job_change_its_result_and_is_told_of_failures(small_shop: Shop) -> None:
    app = small_shop.app
    told: list[str] = []

    @app.middleware
    async def guard(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        if ctx.tenant == "blocked":
            raise Fail("not for you")
        try:
            return f"<{await call()}>"
        except Exception as error:
            told.append(ctx.job.task)
            raise error

    @app.task
    async def greets() -> str:
        return "hello"

    @app.task(max_attempts=1)
    def fails() -> None:
        raise ValueError

    async with small_shop.working():
        assert await (await greets.aenqueue()).aresult(SOON) == "<hello>"
        refused = await small_shop.until_ended(await greets.options(tenant="blocked").aenqueue())
        assert (refused.state, refused.reason) == ("failed", "permanent")
        failed = await small_shop.until_ended(await fails.aenqueue())
        assert (failed.state, failed.reason) == ("failed", "exhausted")
    assert told == ["fails"]


@live
async def test_a_thread_under_middleware_keeps_its_grace_when_it_is_cancelled(small_shop: Shop) -> None:
    app = small_shop.app
    begun, release = threading.Event(), threading.Event()

    @app.middleware
    async def plain(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        return await call()

    @app.task
    def saves(ctx: SyncContext) -> str:
        begun.set()
        ctx.wait_cancelled(SOON)
        return "saved"

    @app.task
    def deaf() -> None:
        begun.set()
        release.wait()

    try:
        async with small_shop.working(cancel_grace=5) as worker:
            job = await saves.aenqueue()
            await asyncio.to_thread(begun.wait)
            await job.acancel()
            await small_shop.beat(worker)
            assert await job.aresult(SOON) == "saved"
            begun.clear()
            job = await deaf.aenqueue()
            await asyncio.to_thread(begun.wait)
            await job.acancel()
            await small_shop.beat(worker)
            assert (await job.astatus()).state == "running"
            await small_shop.pass_time(5, worker)
            assert (await small_shop.until_ended(job)).state == "cancelled"
            assert worker._threads.zombies == 1
            release.set()
    finally:
        release.set()


@live
async def test_middleware_that_hangs_before_its_handler_is_ended_by_the_timeout(small_shop: Shop) -> None:
    app = small_shop.app
    begun = asyncio.Event()

    @app.middleware
    async def hangs(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        begun.set()
        await asyncio.Event().wait()

    @app.task(timeout=10, max_attempts=1)
    def never() -> None:
        raise AssertionError("its middleware never calls it")

    async with small_shop.working() as worker:
        job = await never.aenqueue()
        await begun.wait()
        await small_shop.pass_time(10, worker)
        assert (await small_shop.until_ended(job)).reason == "timeout"


# -- both colours, on threads, on the loop and in child processes


@live
async def test_a_thread_local_of_def_middleware_is_seen_by_a_def_handler(small_shop: Shop) -> None:
    local = threading.local()

    @small_shop.app.middleware
    def sets(ctx: SyncContext, call: Callable[[], Any]) -> Any:
        local.tenant = ctx.tenant
        return f"<{call()}>"

    @small_shop.app.task
    def reads() -> str:
        return str(local.tenant)

    async with small_shop.working():
        job = await reads.options(tenant="acme").aenqueue()
        assert await job.aresult(SOON) == "<acme>"


@live
async def test_layers_of_both_colours_wrap_def_and_async_tasks_in_their_order(shop: Shop) -> None:
    app = shop.borrow(wrapped_tasks.app)
    async with shop.working():
        for task in (wrapped_tasks.on_thread, wrapped_tasks.on_loop):
            seen = await (await app.aenqueue(task.options(tenant="acme").job())).aresult(SOON)
            assert (seen["outer_says"], seen["inner_says"]) == (f"{task.name} 1", "DEFAULT")
            assert seen["outer"] == seen["inner"] == seen["pid"] == os.getpid()
            assert seen["current"] == f"{task.name} {'Context' if task.is_async else 'SyncContext'}"
            if task is wrapped_tasks.on_thread:
                assert (seen["tenant"], seen["innermost"]) == ("acme", len("on_thread"))
                assert seen["handler_thread"] == seen["thread"] != threading.get_ident()
            else:
                assert seen["handler_thread"] == threading.get_ident()


@live
async def test_runs_in_child_processes_are_wrapped_there(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", shop.url)
    app = shop.borrow(wrapped_tasks.app)
    async with shop.working():
        for task in (wrapped_tasks.apart, wrapped_tasks.apart_async):
            seen = await (await app.aenqueue(task.options(tenant="acme").job())).aresult(SOON)
            assert seen["outer"] == seen["inner"] == seen["pid"] != os.getpid()
            assert seen["current"] == f"{task.name} {'Context' if task.is_async else 'SyncContext'}"
            assert (seen["outer_says"], seen["inner_says"], seen["stamp"]) == (f"{task.name} 1", "DEFAULT", 2)
            assert task is wrapped_tasks.apart_async or (seen["tenant"], seen["innermost"]) == ("acme", len("apart"))
        refused = await shop.until_ended(await app.aenqueue(wrapped_tasks.apart.options(tenant="blocked").job()))
        assert (refused.state, refused.reason) == ("failed", "permanent")


@live
async def test_a_wrapped_handler_in_a_child_keeps_its_grace_and_may_be_suspended(
    shop: Shop, pipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", shop.url)
    app = shop.borrow(wrapped_tasks.app)
    async with shop.working(cancel_grace=5) as worker:
        job = await app.aenqueue(wrapped_tasks.waits.job(str(pipe)))
        await asyncio.to_thread(pipe.read_text)
        await job.acancel()
        await shop.beat(worker)
        assert (await job.aresult(SOON))["saved"] is True
        job = await app.aenqueue(wrapped_tasks.waits_for_signal.job())
        await shop.until(job, lambda r: r.reason == "signal")
        await app.asignal(job, "go", 7)
        assert (await job.aresult(SOON))["signal"] == 7


@live
async def test_a_job_fails_with_advice_where_a_child_cannot_find_the_middleware(small_shop: Shop) -> None:
    app = small_shop.borrow(isolated_tasks.app)

    @app.middleware
    def only_here(ctx: SyncContext, call: Callable[[], Any]) -> Any:
        return call()

    async with small_shop.working():
        job = await app.aenqueue(isolated_tasks.apart.options(max_attempts=1).job([1]))
        ended = await small_shop.until_ended(job)
        assert ended.state == "failed"
        assert "only_here of the worker is not registered" in (ended.error or "")


@live
async def test_a_def_layer_that_returns_a_coroutine_is_refused(small_shop: Shop) -> None:
    @small_shop.app.middleware
    def forgets(ctx: SyncContext, call: Callable[[], Any]) -> Any:
        return asyncio.sleep(0)

    @small_shop.app.task(max_attempts=1)
    def never() -> None: ...

    async with small_shop.working():
        ended = await small_shop.until_ended(await never.aenqueue())
        assert "make it an async def" in (ended.error or "")


@live
async def test_cancelling_an_async_handler_under_def_middleware_interrupts_it(shop: Shop) -> None:
    told: list[str] = []
    begun = asyncio.Event()

    @shop.app.middleware
    def around(ctx: SyncContext, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except BaseException as error:
            told.append(f"{type(error).__name__} {ctx.is_suspended}")
            raise

    @shop.app.task
    async def hangs() -> None:
        begun.set()
        await asyncio.Event().wait()

    @shop.app.task
    async def rests(ctx: Context) -> int:
        return await ctx.wait_for("go", type=int)

    async with shop.working() as worker:
        job = await hangs.aenqueue()
        await begun.wait()
        await job.acancel()
        await shop.beat(worker)
        assert (await shop.until_ended(job)).state == "cancelled"
        job = await rests.aenqueue()
        await shop.until(job, lambda r: r.reason == "signal")
        await shop.app.asignal(job, "go", 7)
        assert await job.aresult(SOON) == 7
    assert told == ["CancelledError False", "CancelledError True"]
