"""A cancel reaches what runs; a success within the grace stands, anything else ends cancelled."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Retry, Snooze, SyncContext
from holdfast.worker.processes.identity import is_gone
from tests.patience import SOON

from . import gated_tasks, isolated_tasks
from .worker_kit import AT_ONCE, Shop, key_of, live, read_pipe


@live
async def test_a_cancel_reaches_a_running_coroutine_of_the_same_process_at_once(real_shop: Shop) -> None:
    app = real_shop.app
    begun = asyncio.Event()

    @app.task(retry=AT_ONCE)
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    # No beat is due for minutes: the wakeups alone brings the news.
    async with real_shop.working(lease=600):
        job = await endless.aenqueue()
        await begun.wait()
        assert await job.acancel(reason="changed my mind") == "cancel_requested"
        record = await real_shop.until_ended(job)
    assert (record.state, record.reason, record.attempts) == ("cancelled", "changed my mind", 1)


@live
async def test_a_thread_learns_of_a_cancel_through_its_context(real_shop: Shop) -> None:
    app = real_shop.app
    begun = threading.Event()

    @app.task(retry=AT_ONCE)
    def polite(ctx: SyncContext) -> None:
        begun.set()
        assert ctx.wait_cancelled(SOON)
        assert ctx.cancelled
        raise InterruptedError

    async with real_shop.working():
        job = await polite.aenqueue()
        await asyncio.to_thread(begun.wait)
        assert await job.acancel() == "cancel_requested"
        assert (await real_shop.until_ended(job)).state == "cancelled"


@live
async def test_a_process_that_does_not_heed_a_cancel_is_killed_after_the_grace(shop: Shop, pipe: Path) -> None:
    app = shop.borrow(isolated_tasks.app)
    async with shop.working(cancel_grace=5) as worker:
        job = await app.aenqueue(isolated_tasks.hangs.job(str(pipe)))
        child = key_of(await read_pipe(pipe))
        await job.acancel()
        await shop.beat(worker)
        assert (await job.astatus()).state == "running"
        await shop.pass_time(5, worker)
        assert (await shop.until_ended(job)).state == "cancelled"
    assert is_gone(child)


@live
async def test_processes_that_heed_a_cancel_end_within_the_grace(small_shop: Shop, pipe: Path) -> None:
    app = small_shop.borrow(isolated_tasks.app)
    async with small_shop.working() as worker:
        job = await app.aenqueue(isolated_tasks.waits_for_cancel.job(str(pipe)))
        await read_pipe(pipe)
        await job.acancel()
        await small_shop.beat(worker)
        assert await job.aresult(SOON) == "cancelled True"
        job = await app.aenqueue(isolated_tasks.waits_async.job(str(pipe)))
        await read_pipe(pipe)
        await job.acancel()
        await small_shop.beat(worker)
        assert (await small_shop.until_ended(job)).state == "cancelled"


@live
@pytest.mark.parametrize("colour", ["def", "async"])
@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_handler_does_not_begin_in_its_process_after_a_cancel_was_answered(
    shop: Shop, pipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, colour: str, is_heard: bool
) -> None:
    app = shop.borrow(gated_tasks.app)
    task = gated_tasks.touches if colour == "def" else gated_tasks.touches_async
    gate, effect = tmp_path / "gate", tmp_path / "effect"
    os.mkfifo(gate)
    monkeypatch.setenv("HOLDFAST_TEST_GATE", f"{pipe}:{gate}")
    async with shop.working() as worker:
        job = await app.aenqueue(task.job(str(effect)))
        assert await read_pipe(pipe) == "importing"
        if is_heard:
            assert await job.acancel() == "cancel_requested"
            await shop.beat(worker)
        else:
            # As where the worker has not heard of it yet: nobody rings.
            shop.alter("update holdfast_live set cancel_at = 1, cancel_reason = 'cancelled'")
        await asyncio.to_thread(gate.write_text, "")
        record = await shop.until_ended(job)
    assert (record.state, record.reason, record.attempts) == ("cancelled", "cancelled", 1)
    assert not effect.exists()


@live
async def test_a_success_within_the_grace_stands(shop: Shop) -> None:
    app = shop.app
    begun, on_thread = asyncio.Event(), threading.Event()

    @app.task
    async def tidies_up() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "saved"
        return ""

    @app.task
    def tidies_up_too(ctx: SyncContext) -> str:
        on_thread.set()
        return f"saved {ctx.wait_cancelled(SOON)}"

    async with shop.working() as worker:
        jobs = [await tidies_up.aenqueue(), await tidies_up_too.aenqueue()]
        await begun.wait()
        await asyncio.to_thread(on_thread.wait)
        for job in jobs:
            await job.acancel()
        await shop.beat(worker)
        assert [await job.aresult(SOON) for job in jobs] == ["saved", "saved True"]


async def _fail() -> None:
    raise ValueError


async def _retry() -> None:
    raise Retry("again")


async def _snooze() -> None:
    raise Snooze(1)


@pytest.mark.parametrize("ends", [_fail, _retry, _snooze])
@live
async def test_whatever_else_a_cancelled_handler_does_its_job_ends_cancelled(
    small_shop: Shop, ends: Callable[[], Awaitable[Any]]
) -> None:
    app = small_shop.app
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task(retry=AT_ONCE)
    async def ends_otherwise() -> None:
        begun.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            await ends()

    async with small_shop.working() as worker:
        seen = await ends_otherwise.aenqueue()
        await begun.wait()
        await seen.acancel()
        await small_shop.beat(worker)
        assert (await small_shop.until_ended(seen)).state == "cancelled"
        assert (await seen.astatus()).attempts == 1


@live
async def test_a_failure_that_crosses_a_cancel_the_worker_has_not_heard_of_is_not_retried(shop: Shop) -> None:
    app = shop.app
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task(retry=AT_ONCE)
    async def fails() -> None:
        begun.set()
        await go.wait()
        raise ValueError

    job = await fails.aenqueue()
    async with shop.working():
        await begun.wait()
        # As another process would: no wake-up of ours is sent.
        shop.alter("update holdfast_live set cancel_at = 1, cancel_reason = 'meanwhile' where id = ?", job.id)
        go.set()
        record = await shop.until_ended(job)
    assert (record.state, record.reason, record.attempts) == ("cancelled", "meanwhile", 1)


@live
async def test_a_coroutine_that_ignores_a_cancel_is_given_up_after_the_grace(small_shop: Shop) -> None:
    app = small_shop.app
    begun, free, told = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.task
    async def ignores(ctx: Context) -> str:
        begun.set()
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                told.set()
        return f"late {ctx.cancelled}"

    async with small_shop.working(cancel_grace=5) as worker:
        job = await ignores.aenqueue()
        await begun.wait()
        await job.acancel()
        await small_shop.beat(worker)
        await told.wait()
        await small_shop.pass_time(5, worker)
        assert (await small_shop.until_ended(job)).state == "cancelled"
        free.set()


@live
async def test_a_forced_cancel_ends_the_job_at_once_and_fences_its_handler(shop: Shop) -> None:
    app = shop.app
    begun, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
        return "too late"

    async with shop.working() as worker:
        job = await stubborn.aenqueue()
        await begun.wait()
        before = await job.astatus()
        assert await job.acancel(force=True) == "cancelled"
        after = await job.astatus()
        assert (after.state, after.owner, after.epoch > before.epoch) == ("cancelled", None, True)
        await shop.beat(worker)
        await stopped.wait()
        await shop.until(job, lambda _: not worker.outcomes.pending and not worker.runner.runs)
    assert (await job.astatus()).state == "cancelled"
    assert (await job.astatus()).result is None


@live
async def test_a_cancel_is_heard_while_the_worker_drains(real_shop: Shop) -> None:
    app = real_shop.app
    begun: list[int] = []
    both = asyncio.Event()

    @app.task
    async def endless(n: int) -> None:
        begun.append(n)
        if len(begun) == 2:
            both.set()
        await asyncio.Event().wait()

    worker = real_shop.worker()
    await worker.start()
    jobs = [await endless.aenqueue(n) for n in range(2)]
    await both.wait()
    stopping = asyncio.create_task(worker.stop(grace=600))
    await real_shop.until(jobs[0], lambda _: worker.state.closing)
    for job in jobs:
        await job.acancel()
        assert (await real_shop.until_ended(job)).state == "cancelled"
    async with asyncio.timeout(SOON):
        await stopping


@live
async def test_cancelling_a_job_that_waits_never_starts_it(shop: Shop) -> None:
    app = shop.app
    runs: list[int] = []

    @app.task
    async def note(n: int) -> None:
        runs.append(n)

    first, second = await note.aenqueue(1), await note.aenqueue(2)
    assert await first.acancel() == "cancelled"
    async with shop.working():
        await second.await_(SOON)
    assert runs == [2]
