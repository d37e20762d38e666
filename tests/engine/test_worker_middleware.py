"""Middleware stands around every kind of handler, and takes nothing away from it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast import Context, Fail, SyncContext
from tests.patience import SOON

from . import isolated_tasks
from .worker_kit import Shop, live


@live
async def test_middleware_wraps_every_kind_of_task_in_order_and_sees_the_context(small_shop: Shop) -> None:
    app = small_shop.borrow(isolated_tasks.app)
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
    requests = {"here": here.job(), "on_thread": on_thread.job(), "apart_async": isolated_tasks.apart_async.job("x")}
    async with small_shop.working() as worker:
        for (name, request), result in zip(requests.items(), (1, 2, "X"), strict=True):
            seen.clear()
            worker.floor.closing = True
            job = await app.aenqueue(request)
            current[0] = job.id
            worker.floor.closing = False
            worker.turns.feed()
            assert await job.aresult(SOON) == result
            assert seen == [f"outer {name} 1", "inner True", f"outer got {result}"]


@live
async def test_middleware_can_fail_a_job_change_its_result_and_is_told_of_failures(small_shop: Shop) -> None:
    app = small_shop.borrow(isolated_tasks.app)
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
        # A failure in a child process comes through as what it is.
        parked = await app.aenqueue(isolated_tasks.says.job("park"))
        record = await small_shop.until(parked, lambda r: r.state == "blocked")
        assert (record.reason, record.attempts) == ("credentials", 0)
        died = await small_shop.until_ended(await app.aenqueue(isolated_tasks.exits_hard.job()))
        assert (died.state, died.reason) == ("failed", "worker_lost")
    assert told == ["fails", "says", "exits_hard"]


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
    app = small_shop.borrow(isolated_tasks.app)
    begun = asyncio.Event()

    @app.middleware
    async def hangs(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async with small_shop.working() as worker:
        job = await app.aenqueue(isolated_tasks.apart.options(timeout=10, max_attempts=1).job([1]))
        await begun.wait()
        await small_shop.pass_time(10, worker)
        assert (await small_shop.until_ended(job)).reason == "timeout"
