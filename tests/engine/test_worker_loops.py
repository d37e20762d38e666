"""The worker's loops outlive their errors; middleware, logs and the context see each job as it is."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Context, Fail, SyncContext
from holdfast.clock import ManualClock
from holdfast.engine.timekeeper import Timekeeper
from holdfast.telemetry import JobFilter

from . import isolated_tasks
from .worker_kit import AT_ONCE, Shop, live


class Broken(Exception):
    pass


# -- loops


@live
async def test_the_turns_survive_errors_of_any_kind(small_shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    app = small_shop.app

    @app.task
    async def note() -> str:
        return "ran"

    async with small_shop.working() as worker:
        while worker.turns.hungry:
            await asyncio.sleep(0.005)

        async def broken() -> None:
            raise Broken("unheard of")

        small_shop.store.before = broken
        worker.turns.feed()
        job = await note.aenqueue()
        assert await job.aresult(10) == "ran"
    assert "Broken: unheard of" in caplog.text


@live
async def test_the_heartbeat_survives_errors_of_any_kind(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shop.working() as worker:

        def broken(op: Any) -> Any:
            raise Broken("unheard of")

        with monkeypatch.context() as patch:
            patch.setattr(shop.store, "write", broken)
            assert not await shop.beat(worker)
            worker.heartbeat.beat_now()
        assert await shop.beat(worker)
        assert worker.heartbeat._thread is not None
        assert worker.heartbeat._thread.is_alive()


@live
async def test_the_ears_survive_errors_of_any_kind(small_shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    app = small_shop.app

    @app.task
    async def note() -> str:
        return "ran"

    async with small_shop.working(poll=0.05) as worker:
        real = worker.ears.run_once
        failed = asyncio.Event()

        async def broken() -> float:
            failed.set()
            raise Broken("unheard of")

        worker.ears.run_once = broken  # type: ignore[method-assign]
        await failed.wait()
        worker.ears.run_once = real  # type: ignore[method-assign]
        assert await (await note.aenqueue()).aresult(10) == "ran"
    assert "could not look for work (Broken: unheard of)" in caplog.text


@live
async def test_rescuer_and_expirer_survive_their_errors(small_shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop = small_shop
    worker = shop.worker(rescue_interval=0.01, expire_interval=0.01)
    calls = {"rescuer": 0, "expirer": 0}
    enough = asyncio.Event()

    def broken(name: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            calls[name] += 1
            if min(calls.values()) >= 2:
                enough.set()
            raise Broken(name)

        return work

    worker.rescuer.run_once = broken("rescuer")  # type: ignore[method-assign]
    worker._expire = broken("expirer")  # type: ignore[method-assign,assignment]
    await worker.start()
    await enough.wait()
    await worker.stop()
    assert "rescuer failed (Broken: rescuer)" in caplog.text
    assert "expirer failed (Broken: expirer)" in caplog.text


@live
async def test_an_interval_of_zero_turns_rescuer_and_expirer_off(small_shop: Shop) -> None:
    shop = small_shop
    on = shop.worker(rescue_interval=0.01, expire_interval=0.01)
    off = shop.worker(rescue_interval=0, expire_interval=0)
    calls: list[str] = []
    both = asyncio.Event()

    def noted(name: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            calls.append(name)
            if {"on rescuer", "on expirer"} <= set(calls):
                both.set()

        return work

    for name, worker in (("on", on), ("off", off)):
        worker.rescuer.run_once = noted(f"{name} rescuer")  # type: ignore[method-assign]
        worker._expire = noted(f"{name} expirer")  # type: ignore[method-assign,assignment]
    await off.start()
    await on.start()
    await both.wait()
    await on.stop()
    await off.stop()
    assert set(calls) == {"on rescuer", "on expirer"}


@live
async def test_the_expirer_ends_jobs_that_wait_past_their_deadline(shop: Shop) -> None:
    task = shop.app.declare("elsewhere")
    job = await task.options(deadline=60, delay=100).aenqueue()
    async with shop.working() as worker:
        assert await worker._expire() is None
        assert (await job.astatus()).state == "ready"
        await shop.pass_time(60, worker)
        await worker._expire()
        record = await job.astatus()
        assert (record.state, record.reason) == ("expired", "deadline")


def test_the_timekeeper_survives_a_call_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    keeper = Timekeeper(clock)
    called: list[int] = []

    def broken() -> None:
        raise Broken

    keeper.after(1, broken)
    keeper.after(1, lambda: called.append(1))
    clock.advance(1)
    assert keeper.run_once() is None
    keeper.close()
    assert called == [1]
    assert "the others are" in caplog.text


def test_deadlines_that_are_forgotten_are_not_kept_and_do_not_pile_up() -> None:
    clock = ManualClock()
    keeper = Timekeeper(clock)
    called: list[int] = []
    for n in range(5_000):
        deadline = keeper.after(3_600, lambda n=n: called.append(n))
        if n % 100:
            keeper.forget(deadline)
            keeper.forget(deadline)
    assert len(keeper._heap) < 2_500
    clock.advance(3_600)
    keeper.run_once()
    keeper.close()
    assert called == list(range(0, 5_000, 100))


@live
async def test_a_finished_job_leaves_no_deadline_behind(small_shop: Shop) -> None:
    app = small_shop.app

    @app.task(timeout=3600)
    async def quick() -> None: ...

    async with small_shop.working() as worker:
        for job in await app.aenqueue_many([quick.job() for _ in range(20)]):
            await job.await_(10)
        await small_shop.until(job, lambda _: not worker.floor.runs)
        assert [entry for entry in worker.timekeeper._heap if entry[2].call is not None and entry[0] > 3600] == []


# -- middleware


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
            assert await job.aresult(20) == result
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
        assert await (await greets.aenqueue()).aresult(10) == "<hello>"
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
        ctx.wait_cancelled(20)
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
            assert await job.aresult(10) == "saved"
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


# -- logs and context


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
        await first.await_(10)
        await second.await_(10)
    mine.info("outside")
    said = [(r.getMessage(), r.job, r.task, r.attempt) for r in caplog.records]  # type: ignore[attr-defined]
    for attempt in (1, 2):
        assert ("here", first.id, "here", attempt) in said
        assert ("by context", first.id, "here", attempt) in said
    assert ("on thread", second.id, "on_thread", 1) in said
    assert ("by context", second.id, "on_thread", 1) in said
    assert (f"job {first.id} (here) failed", first.id, "here", 1) in said
    assert ("outside", "", "", "") in said


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
            ids = await job.aresult(10)
            assert [(await app.jobs.aget(i)).tenant for i in ids] == ["acme", "other"]
            for i in ids:
                await app.jobs.await_(i, 10)


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
        await job.await_(10)
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
