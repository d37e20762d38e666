"""Timeouts of one run, deadlines of a whole job, and what they cost."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from holdfast import Context, SyncContext
from holdfast.worker.processes.identity import is_gone
from tests.patience import SOON

from . import isolated_tasks
from .worker_kit import AT_ONCE, Shop, key_of, live, read_pipe


@live
async def test_a_coroutine_past_its_timeout_is_cancelled_and_the_attempt_counts(shop: Shop) -> None:
    app = shop.app
    begun, unwound = asyncio.Event(), asyncio.Event()

    @app.task(timeout=30, max_attempts=2)
    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            unwound.set()

    async with shop.working() as worker:
        job = await slow.aenqueue()
        await begun.wait()
        await shop.pass_time(29.9, worker)
        assert not unwound.is_set()
        await shop.pass_time(0.1, worker)
        await unwound.wait()
        record = await shop.until_again(job, "retry")
    assert record.attempts == 1
    assert "longer than 30 s" in json.loads(record.error or "")["message"]
    assert [a.outcome for a in await app.jobs.aattempts(job.id)] == ["timeout"]


@live
async def test_a_coroutine_that_ignores_its_cancellation_is_given_up_after_the_grace(small_shop: Shop) -> None:
    app = small_shop.app
    begun, stubborn, free = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.task(timeout=10, max_attempts=1)
    async def ignores() -> str:
        begun.set()
        try:
            await free.wait()
        except asyncio.CancelledError:
            stubborn.set()
            await asyncio.shield(free.wait())
        return "late"

    async with small_shop.working(cancel_grace=5, concurrency=1) as worker:
        job = await ignores.aenqueue()
        await begun.wait()
        await small_shop.pass_time(10, worker)
        await stubborn.wait()
        assert (await job.astatus()).state == "running"
        await small_shop.pass_time(5, worker)
        record = await small_shop.until_ended(job)
        assert (record.state, record.reason, record.attempts) == ("failed", "timeout", 1)
        free.set()
    assert (await job.astatus()).state == "failed"


@live
async def test_a_thread_is_asked_to_end_at_its_timeout(shop: Shop) -> None:
    app = shop.app
    begun = threading.Event()

    @app.task(timeout=20, max_attempts=1)
    def slow(ctx: SyncContext) -> None:
        assert not ctx.cancelled
        begun.set()
        assert ctx.wait_cancelled(SOON)
        assert ctx.cancelled
        raise RuntimeError("half done")

    async with shop.working() as worker:
        job = await slow.aenqueue()
        await asyncio.to_thread(begun.wait)
        await shop.pass_time(20, worker)
        record = await shop.until_ended(job)
    assert (record.state, record.reason) == ("failed", "timeout")


@live
async def test_a_thread_that_does_not_end_becomes_a_zombie_whose_slot_is_replaced(
    small_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = small_shop.app
    begun, release = threading.Event(), threading.Event()

    @app.task(timeout=10, max_attempts=1)
    def hangs() -> str:
        begun.set()
        release.wait()
        return "late"

    @app.task
    def quick() -> str:
        return "ran"

    try:
        async with small_shop.working(concurrency=1, cancel_grace=5) as worker:
            job = await hangs.aenqueue()
            await asyncio.to_thread(begun.wait)
            await small_shop.pass_time(10, worker)
            await small_shop.pass_time(5, worker)
            record = await small_shop.until_ended(job)
            assert (record.state, record.reason) == ("failed", "timeout")
            assert "its slot is given up" in caplog.text
            assert await (await quick.aenqueue()).aresult(SOON) == "ran"
            assert not worker.is_worn_out
            release.set()
    finally:
        release.set()
    assert (await job.astatus()).state == "failed"


@live
async def test_a_worker_with_too_many_zombies_claims_no_more_and_says_so(small_shop: Shop) -> None:
    shop, app = small_shop, small_shop.app
    release = threading.Event()
    begun = threading.Semaphore(0)

    @app.task(timeout=10, max_attempts=1)
    def hangs() -> None:
        begun.release()
        release.wait()

    try:
        async with shop.working(concurrency=10, cancel_grace=5) as worker:
            jobs = await app.aenqueue_many([hangs.job() for _ in range(9)])
            for _ in jobs:
                await asyncio.to_thread(begun.acquire)
            await shop.pass_time(10, worker)
            await shop.pass_time(5, worker)
            for job in jobs:
                assert (await shop.until_ended(job)).reason == "timeout"
            assert worker.is_worn_out
            assert worker.runner.room() is None
            release.set()
    finally:
        release.set()


@live
async def test_a_process_past_its_timeout_is_killed_at_once(shop: Shop, pipe: Path) -> None:
    app = shop.borrow(isolated_tasks.app)
    async with shop.working() as worker:
        job = await app.aenqueue(isolated_tasks.hangs.options(timeout=10, max_attempts=1).job(str(pipe)))
        child = key_of(await read_pipe(pipe))
        await shop.pass_time(10, worker)
        record = await shop.until_ended(job)
        assert (record.state, record.reason, record.attempts) == ("failed", "timeout", 1)
    assert is_gone(child)


@live
async def test_a_deadline_that_passes_while_a_job_runs_expires_it(shop: Shop, pipe: Path) -> None:
    app = shop.borrow(isolated_tasks.app)
    begun, on_thread = asyncio.Event(), threading.Event()

    @app.task(retry=AT_ONCE)
    async def slow() -> None:
        begun.set()
        await asyncio.Event().wait()

    @app.task(retry=AT_ONCE, timeout=1000)
    def cooperative(ctx: SyncContext) -> None:
        on_thread.set()
        if ctx.wait_cancelled(SOON):
            raise InterruptedError

    async with shop.working() as worker:
        jobs = [await task.options(deadline=60).aenqueue() for task in (slow, cooperative)]
        jobs.append(await app.aenqueue(isolated_tasks.hangs.options(deadline=60).job(str(pipe))))
        await begun.wait()
        await asyncio.to_thread(on_thread.wait)
        await read_pipe(pipe)
        await shop.pass_time(60, worker)
        for job in jobs:
            record = await shop.until_ended(job)
            assert (record.state, record.reason) == ("expired", "deadline")


@live
async def test_a_job_past_its_deadline_is_never_started(shop: Shop) -> None:
    app = shop.app
    runs: list[int] = []

    @app.task
    async def late(n: int) -> None:
        runs.append(n)

    job = await late.options(deadline=60).aenqueue(1)
    fresh = await late.options(deadline=90).aenqueue(2)
    shop.clock.advance(60)
    async with shop.working():
        assert await fresh.await_(SOON) == "succeeded"
        record = await shop.until_ended(job)
    assert (record.state, record.reason) == ("expired", "deadline")
    assert runs == [2]


@live
async def test_the_shorter_of_timeout_and_deadline_counts(small_shop: Shop) -> None:
    app = small_shop.app
    begun: list[int] = []
    both = asyncio.Event()

    @app.task(max_attempts=1)
    async def slow(n: int) -> None:
        begun.append(n)
        if len(begun) == 2:
            both.set()
        await asyncio.Event().wait()

    async with small_shop.working() as worker:
        timed = await slow.options(timeout=20, deadline=30).aenqueue(1)
        dated = await slow.options(timeout=30, deadline=20).aenqueue(2)
        await both.wait()
        await small_shop.pass_time(20, worker)
        assert (await small_shop.until_ended(timed)).reason == "timeout"
        assert (await small_shop.until_ended(dated)).state == "expired"


@pytest.mark.parametrize("way", ["fails", "times out", "is rescued"])
@live
async def test_a_job_runs_as_often_whether_it_fails_or_times_out_or_is_rescued(shop: Shop, way: str) -> None:
    app = shop.app
    runs: list[int] = []
    begun: asyncio.Queue[int] = asyncio.Queue()

    @app.task(max_attempts=3, retry=AT_ONCE, timeout=10)
    async def ill_fated(ctx: Context) -> None:
        runs.append(ctx.attempt)
        begun.put_nowait(ctx.attempt)
        if way == "fails":
            raise ValueError
        await asyncio.Event().wait()

    async with shop.working() as worker:
        job = await ill_fated.aenqueue()
        for attempt in (1, 2, 3):
            assert await begun.get() == attempt
            if way == "times out":
                await shop.pass_time(10, worker)
            elif way == "is rescued":
                assert await asyncio.to_thread(app.workers.rescue, worker.id) == 1
                await shop.beat(worker)
        record = await shop.until_ended(job)
    assert (record.state, record.attempts) == ("failed", 3)
    assert record.reason == {"fails": "exhausted", "times out": "timeout", "is rescued": "worker_lost"}[way]
    assert runs == [1, 2, 3]
