"""Suspension: a job that waits holds nothing, and whatever its handler does meanwhile does not count."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Context, JobFailed, SyncContext
from holdfast.clock import SECOND
from tests.patience import SOON

from .worker_kit import Shop, live


async def suspended(shop: Shop, job: Any) -> Any:
    return await shop.until(job, lambda record: record.state == "suspended")


# -- sleep


@live
async def test_a_sleeping_job_holds_no_slot_and_goes_on_in_the_same_attempt(shop: Shop) -> None:
    seen: list[str] = []

    @shop.app.task(max_attempts=1)
    async def sleeps(ctx: Context) -> int:
        seen.append(f"attempt {ctx.attempt}")
        await ctx.sleep(timedelta(hours=1))
        return ctx.attempt

    @shop.app.task
    async def other() -> str:
        return "done"

    async with shop.working(concurrency=1) as worker:
        job = await sleeps.aenqueue()
        record = await shop.until_again(job, "sleep")
        assert (record.owner, record.attempts, record.not_before) == (None, 0, shop.clock.now() + 3600 * SECOND)
        assert await (await other.aenqueue()).aresult(SOON) == "done"
        await shop.pass_time(3601, worker)
        assert await job.aresult(SOON) == 1
    assert seen == ["attempt 1"] * 2
    assert shop.app.jobs.attempts(job.id) == []


@live
async def test_a_sleep_until_an_instant_that_has_passed_does_not_sleep(shop: Shop) -> None:
    @shop.app.task
    def sleeps(ctx: SyncContext) -> str:
        ctx.sleep(datetime(2020, 1, 1, tzinfo=UTC))
        return "awake"

    async with shop.working():
        assert await (await sleeps.aenqueue()).aresult(SOON) == "awake"


@live
async def test_a_job_that_is_woken_early_sleeps_on(shop: Shop) -> None:
    @shop.app.task
    async def sleeps(ctx: Context) -> str:
        await ctx.sleep(100)
        return "awake"

    async with shop.working() as worker:
        job = await sleeps.aenqueue()
        due = (await shop.until_again(job, "sleep")).not_before
        await shop.pass_time(40, worker)
        await shop.app.jobs.arun_now(job.id)
        record = await shop.until(job, lambda record: record.epoch >= 4)
        assert (record.reason, record.not_before) == ("sleep", due)


# -- how a handler is left


@live
async def test_finally_blocks_run_to_their_end_before_the_suspension_is_visible(shop: Shop) -> None:
    order: list[str] = []
    cleaning, clean = asyncio.Event(), asyncio.Event()

    @shop.app.task
    async def waits(ctx: Context) -> None:
        try:
            await ctx.wait_for("go")
        finally:
            order.append("cleaning")
            cleaning.set()
            # A second cancellation would end this wait too.
            await clean.wait()
            order.append("clean")

    async with shop.working():
        job = await waits.aenqueue()
        await cleaning.wait()
        assert (await job.astatus()).state == "running"
        clean.set()
        await suspended(shop, job)
    assert order == ["cleaning", "clean"]


@live
async def test_a_task_group_inside_a_durable_task_suspends_cleanly(shop: Shop) -> None:
    ended: list[str] = []

    async def sibling() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("sibling")

    @shop.app.task
    async def groups(ctx: Context) -> str:
        first = await ctx.step("first", abs, -1)
        if ctx.job.epoch == 1:
            async with asyncio.TaskGroup() as group:
                group.create_task(sibling())
                group.create_task(ctx.wait_for("go"))
        return f"{first} {await ctx.wait_for('go', type=str)}"

    async with shop.working():
        job = await groups.aenqueue()
        await suspended(shop, job)
        assert ended == ["sibling"]
        await shop.app.asignal(job, "go", "on")
        assert await job.aresult(SOON) == "1 on"


@live
async def test_a_swallowed_suspension_cannot_complete_a_def_task(shop: Shop) -> None:
    caught: list[str] = []

    @shop.app.task
    def stubborn(ctx: SyncContext) -> str:
        for call in (lambda: ctx.wait_for("go", type=str), lambda: ctx.step("more", abs, -1), lambda: ctx.sleep(1)):
            try:
                answer = call()
                if isinstance(answer, str):
                    return answer
            except BaseException as error:
                caught.append(type(error).__name__)
        return "as if nothing had happened"

    async with shop.working():
        job = await stubborn.aenqueue()
        record = await suspended(shop, job)
        assert (record.reason, record.result) == ("signal", None)
        assert caught == ["Suspension"] * 3
        assert shop.app.jobs.steps(job.id) == []
        await shop.app.asignal(job, "go", "now")
        assert await job.aresult(SOON) == "now"


@live
async def test_a_swallowed_suspension_cannot_complete_an_async_task(shop: Shop) -> None:
    caught: list[str] = []

    @shop.app.task
    async def stubborn(ctx: Context) -> str:
        for _ in range(2):
            try:
                return await ctx.wait_for("go", type=str)
            except asyncio.CancelledError:
                caught.append("cancelled")
        return "as if nothing had happened"

    async with shop.working():
        job = await stubborn.aenqueue()
        await suspended(shop, job)
        assert caught == ["cancelled"] * 2
        await shop.app.asignal(job, "go", "now")
        assert await job.aresult(SOON) == "now"


@live
async def test_an_error_while_the_handler_unwinds_does_not_count(shop: Shop) -> None:
    @shop.app.task(max_attempts=1)
    async def breaks(ctx: Context) -> str:
        try:
            return await ctx.wait_for("go", type=str)
        except asyncio.CancelledError:
            raise RuntimeError("while leaving") from None

    async with shop.working():
        job = await breaks.aenqueue()
        record = await suspended(shop, job)
        assert record.error is None
        await shop.app.asignal(job, "go", "now")
        assert await job.aresult(SOON) == "now"


@live
async def test_middleware_sees_the_handler_leave_and_its_own_steps_are_apart(shop: Shop) -> None:
    seen: list[str] = []

    @shop.app.middleware
    async def around(ctx: Context, call: Any) -> Any:
        await ctx.step("mine", abs, -1)
        try:
            return await call()
        except BaseException as error:
            seen.append(f"{type(error).__name__} {ctx.is_suspended}")
            raise

    @shop.app.task
    async def one(ctx: Context) -> int:
        await ctx.step("mine", len, "ab")
        return await ctx.wait_for("go", type=int)

    @shop.app.task
    def two(ctx: SyncContext) -> int:
        return ctx.wait_for("go", type=int)

    async with shop.working():
        for task in (one, two):
            job = await task.aenqueue()
            await suspended(shop, job)
            await shop.app.asignal(job, "go", 7)
            assert await job.aresult(SOON) == 7
    assert seen == ["CancelledError True", "Suspension True"]


# -- while it unwinds, or waits


@live
async def test_a_cancel_while_the_handler_unwinds_cancels_the_job(shop: Shop) -> None:
    leaving, leave = asyncio.Event(), asyncio.Event()

    @shop.app.task
    async def waits(ctx: Context) -> None:
        try:
            await ctx.wait_for("go")
        finally:
            leaving.set()
            await leave.wait()

    async with shop.working():
        job = await waits.aenqueue()
        await leaving.wait()
        await job.acancel()
        leave.set()
        record = await shop.until_ended(job)
    assert record.state == "cancelled"


@live
async def test_a_suspended_job_can_be_cancelled(shop: Shop) -> None:
    @shop.app.task
    async def waits(ctx: Context) -> None:
        await ctx.wait_for("go")

    async with shop.working():
        job = await waits.aenqueue()
        await suspended(shop, job)
        await job.acancel()
        assert (await shop.until_ended(job)).state == "cancelled"


@live
async def test_a_run_that_timed_out_cannot_suspend_itself_any_more(shop: Shop) -> None:
    begun = asyncio.Event()

    @shop.app.task(max_attempts=1, timeout=5)
    async def late(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.sleep(60)

    async with shop.working() as worker:
        job = await late.aenqueue()
        await begun.wait()
        await shop.pass_time(6, worker)
        record = await shop.until_ended(job)
    assert (record.state, record.reason) == ("failed", "timeout")


@live
async def test_a_run_that_lost_its_lease_suspends_nothing(shop: Shop) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    runs: list[int] = []

    @shop.app.task
    async def waits(ctx: Context) -> str:
        runs.append(ctx.job.epoch)
        if len(runs) > 1:
            return "the second run"
        begun.set()
        await go.wait()
        await ctx.wait_for("go")
        return "the first run"

    async with shop.working():
        job = await waits.aenqueue()
        await begun.wait()
        shop.alter("update holdfast_live set epoch = epoch + 1 where id = ?", job.id)
        go.set()
        record = await shop.until(job, lambda record: record.state != "suspended")
    assert record.state == "running"
    assert shop.app.jobs.steps(job.id) == []


# -- what is waited for


@live
async def test_a_signal_that_came_first_is_found(shop: Shop) -> None:
    @shop.app.task
    async def waits(ctx: Context) -> int:
        return await ctx.wait_for("go", type=int)

    job = await waits.aenqueue()
    await shop.app.asignal(job, "go", 5)
    async with shop.working():
        assert await job.aresult(SOON) == 5
        assert (await job.astatus()).epoch == 2


@live
async def test_a_waitpoint_has_one_token_in_every_run_and_its_payload_is_typed(shop: Shop) -> None:
    tokens: list[str] = []

    @shop.app.task
    async def asks(ctx: Context) -> bool:
        link = await ctx.waitpoint("approval", expires=3600, type=bool)
        tokens.append(link.token)
        return await ctx.wait_for(link, type=bool)

    async with shop.working():
        job = await asks.aenqueue()
        await suspended(shop, job)
        await shop.app.asignal(tokens[0], payload=True)
        assert await job.aresult(SOON) is True
    assert len(tokens) == 2 and len(set(tokens)) == 1
    assert [step.kind for step in shop.app.jobs.steps(job.id)] == ["waitpoint", "wait"]


@live
async def test_all_of_several_come_in_the_order_of_the_question(shop: Shop) -> None:
    @shop.app.task
    def asks(ctx: SyncContext) -> list[int]:
        return list(ctx.wait_for("a", "b", needed="all", type=int))

    @shop.app.task
    def counts(ctx: SyncContext) -> list[int]:
        return list(ctx.wait_for("vote", needed=2, type=int))

    async with shop.working():
        both, two = await asks.aenqueue(), await counts.aenqueue()
        await suspended(shop, both)
        await suspended(shop, two)
        for name, payload in (("b", 2), ("a", 1)):
            await shop.app.asignal(both, name, payload)
        for payload in (10, 20):
            await shop.app.asignal(two, "vote", payload)
        assert await both.aresult(SOON) == [1, 2]
        assert await two.aresult(SOON) == [10, 20]


@live
async def test_a_timeout_that_resumes_gives_the_default(shop: Shop) -> None:
    @shop.app.task
    async def waits(ctx: Context) -> str:
        return str(await ctx.wait_for("go", timeout=60, on_timeout="resume", default="nobody came"))

    async with shop.working() as worker:
        job = await waits.aenqueue()
        await suspended(shop, job)
        await shop.pass_time(61, worker)
        await worker.services.timeout_waker.run_once()
        assert await job.aresult(SOON) == "nobody came"


@live
async def test_a_payload_that_was_there_before_anybody_said_what_fits_fails_the_job(shop: Shop) -> None:
    @shop.app.task
    async def waits(ctx: Context) -> int:
        return await ctx.wait_for("go", type=int)

    job = await waits.aenqueue()
    await shop.app.asignal(job, "go", "not a number")
    async with shop.working():
        record = await shop.until_ended(job)
    assert (record.state, record.reason) == ("failed", "undecodable")


@live
async def test_waiting_for_children_frees_the_only_slot_for_them(shop: Shop) -> None:
    @shop.app.task
    async def child(n: int) -> int:
        return n * n

    @shop.app.task
    async def parent(ctx: Context) -> list[int]:
        children = [await ctx.enqueue(child.job(n)) for n in range(3)]
        first = await ctx.wait_for(children[0])
        return [first, *await ctx.wait_for(*children[1:])]

    @shop.app.task
    def parent_too(ctx: SyncContext) -> int:
        return ctx.wait_for(ctx.enqueue(child.job(5)))

    async with shop.working(concurrency=1):
        assert await (await parent.aenqueue()).aresult(SOON) == [0, 1, 4]
        assert await (await parent_too.aenqueue()).aresult(SOON) == 25


@live
async def test_waiting_for_a_child_that_failed_raises_what_its_result_would(shop: Shop) -> None:
    @shop.app.task(max_attempts=1)
    async def child() -> None:
        raise ValueError("no use")

    @shop.app.task
    async def parent(ctx: Context) -> str:
        made = await ctx.enqueue(child.job())
        try:
            await ctx.wait_for(made)
        except JobFailed as failed:
            return str(failed.error)
        return "it succeeded"

    async with shop.working():
        assert "no use" in await (await parent.aenqueue()).aresult(SOON)


@live
async def test_gathered_branches_end_their_steps_before_the_job_waits(shop: Shop) -> None:
    done: list[str] = []

    @shop.app.task
    async def gathers(ctx: Context) -> list[Any]:
        async def slow() -> str:
            await asyncio.sleep(0)
            return await ctx.step("slow", lambda: done.append("slow") or "slow")

        async def naps() -> str:
            await ctx.sleep(10)
            return "rested"

        return list(await ctx.gather(ctx.wait_for("go", type=str), slow(), naps()))

    async with shop.working() as worker:
        job = await gathers.aenqueue()
        assert (await suspended(shop, job)).reason == "signal"
        assert done == ["slow"]
        await shop.pass_time(11, worker)
        await shop.app.asignal(job, "go", "went")
        # Its sleep passed while it waited.
        assert await job.aresult(SOON) == ["went", "slow", "rested"]
    assert done == ["slow"]


def test_gathered_threads_wait_as_one(small_shop: Shop) -> None:
    done: list[str] = []

    @small_shop.app.task
    def gathers(ctx: SyncContext) -> list[Any]:
        return list(ctx.gather(lambda: ctx.wait_for("go"), lambda: ctx.step("slow", lambda: done.append("slow") or 1)))

    job = gathers.enqueue()
    small_shop.app.drain()
    assert job.status().state == "suspended"
    small_shop.app.signal(job, "go", "went")
    small_shop.app.drain()
    assert job.result(1) == ["went", 1]
    assert done == ["slow"]


# -- in a process of its own


@live
async def test_an_isolated_task_records_steps_sleeps_and_waits(
    real_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from . import durable_tasks

    shop = real_shop
    monkeypatch.setenv("HOLDFAST_STORE", shop.url)
    app = shop.borrow(durable_tasks.app)
    async with shop.working():
        for task in (durable_tasks.durable_apart, durable_tasks.durable_apart_async):
            job = await app.aenqueue(task.job())
            await suspended(shop, job)
            await shop.app.asignal(job, "go", "went")
            pid, again, said = await job.aresult(SOON)
            assert (pid, said) == (again, "went")
            assert [step.kind for step in shop.app.jobs.steps(job.id)] == ["step", "sleep", "wait"]


@live
async def test_threads_are_free_while_their_jobs_wait(shop: Shop) -> None:
    def hands() -> int:
        return sum(thread.name.startswith(("holdfast-thread", "holdfast-step")) for thread in threading.enumerate())

    @shop.app.task
    def waits(ctx: SyncContext) -> None:
        ctx.wait_for("go")

    async with shop.working(concurrency=2) as worker:
        before = hands()
        jobs = [await waits.aenqueue() for _ in range(10)]
        for job in jobs:
            await suspended(shop, job)
        assert len(worker.runner.runs) == 0
        # No more than those that run its two jobs at a time.
        assert 0 < hands() <= before + 2
