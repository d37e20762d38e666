"""Whose words the frames are: of each attempt, of a run that was lost, of a step that runs again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Context, SyncContext
from holdfast.errors import (
    LeaseLost,
    OutcomeUnknown,
    StorageUnavailable,
)
from holdfast.storage.port import Op
from tests.patience import SOON

from .stream_kit import follow, said
from .worker_kit import AT_ONCE, Shop, live

# -- whose words they are


@live
async def test_a_run_that_has_lost_its_job_says_nothing_more(shop: Shop) -> None:
    lost, told = asyncio.Event(), asyncio.Event()

    @shop.app.task
    async def speaks(ctx: Context) -> None:
        await ctx.emit("mine")
        await ctx.flush()
        lost.set()
        await told.wait()
        await ctx.emit("not mine")
        with pytest.raises(LeaseLost):
            await ctx.flush()
        with pytest.raises(LeaseLost):
            await ctx.emit("nor this")
        with pytest.raises(LeaseLost):
            await ctx.progress(percent=1)
        with pytest.raises(LeaseLost):
            await ctx.summarize({"a": 1})
        await asyncio.Event().wait()

    async with shop.working() as worker:
        job = await speaks.aenqueue()
        await lost.wait()
        shop.alter("update holdfast_live set owner = 'another', epoch = epoch + 1")
        told.set()
        await shop.beat(worker)
        await shop.until(job, lambda _: not worker.runner.runs)
    assert said(list(shop.app.streams.read(job).frames)) == ["mine"]


@live
async def test_each_attempt_is_named_in_its_frames(shop: Shop) -> None:
    @shop.app.task(retry=AT_ONCE)
    async def twice(ctx: Context) -> None:
        await ctx.emit("again")
        if ctx.attempt < 2:
            raise RuntimeError("once more")

    async with shop.working():
        job = await twice.aenqueue()
        frames = await follow(shop, job)
        assert [(frame.seq, frame.attempt) for frame in frames] == [(1, 1), (2, 2)]
        assert await shop.app.jobs.aretry(job.id)
        again = await follow(shop, job, after=frames[-1].cursor)
        assert [(frame.seq, frame.attempt, frame.generation) for frame in again] == [(3, 1, 1), (4, 2, 1)]


@live
async def test_what_was_said_is_stored_once_though_the_store_failed_meanwhile(small_shop: Shop) -> None:
    desk = small_shop.app.streams._desk
    troubles = [StorageUnavailable("away"), OutcomeUnknown("perhaps"), None]

    class Unreliable:
        outage = small_shop.app.open().outage

        def write(self, op: Op[Any]) -> Any:
            trouble = troubles.pop(0) if troubles else None
            if isinstance(trouble, StorageUnavailable):
                raise trouble
            answer = small_shop.app.open().write(op)
            if trouble is not None:
                raise trouble
            return answer

    desk._store = Unreliable  # type: ignore[assignment]

    @small_shop.app.task
    async def speaks(ctx: Context) -> None:
        for n in range(10):
            await ctx.emit(n)
        await ctx.flush()
        await ctx.emit("end")

    async with small_shop.working():
        job = await speaks.aenqueue()
        await job.aresult(SOON)
    assert said(list(small_shop.app.streams.read(job).frames)) == [*range(10), "end"]


@live
async def test_whoever_says_very_much_at_once_waits_for_the_store(shop: Shop) -> None:
    @shop.app.task
    async def floods(ctx: Context) -> None:
        for n in range(10_000):
            await ctx.emit(n)

    async with shop.working():
        job = await floods.aenqueue()
        assert said(await follow(shop, job)) == list(range(10_000))
    assert shop.app.streams._desk._thread is None or not shop.app.streams._desk._buffers


# -- durable steps


@live
async def test_a_step_that_runs_again_supersedes_what_it_said(shop: Shop) -> None:
    @shop.app.task(retry=AT_ONCE)
    async def report(ctx: Context) -> str:
        await ctx.step("load", load)
        return await ctx.step("draft", draft)

    async def load(ctx: Context) -> None:
        await ctx.emit("loaded")

    async def draft(ctx: Context) -> str:
        await ctx.emit(f"draft of attempt {ctx.attempt}")
        await ctx.flush()
        if ctx.attempt < 2:
            raise RuntimeError("once more")
        return "done"

    async with shop.working():
        job = await report.aenqueue()
        seen = await follow(shop, job)
    new = list(shop.app.streams.read(job).frames)
    assert [(frame.data, frame.step) for frame in new] == [
        ("loaded", "load#1"),
        ("draft of attempt 2", "draft#1"),
    ]
    assert said(seen)[0] == "loaded"
    assert said(seen)[-1] == "draft of attempt 2"
    if "draft of attempt 1" in said(seen):
        assert [frame.data for frame in seen if frame.control] == [{"step": "draft#1", "first": 2, "last": 2}]


@live
async def test_a_step_that_is_tried_again_in_one_run_does_so_too(small_shop: Shop) -> None:
    tries: list[int] = []

    def flaky(ctx: SyncContext) -> None:
        tries.append(1)
        ctx.emit(f"try {len(tries)}")
        if len(tries) < 3:
            raise RuntimeError("not yet")

    @small_shop.app.task
    def works(ctx: SyncContext) -> None:
        ctx.emit("top")
        ctx.options(max_attempts=3, retry=AT_ONCE).step("flaky", flaky)

    async with small_shop.working():
        job = await works.aenqueue()
        await job.aresult(SOON)
    frames = small_shop.app.streams.read(job).frames
    assert [frame.data for frame in frames if not frame.control] == ["top", "try 3"]


@live
async def test_a_step_that_says_nothing_the_second_time_takes_its_words_back(small_shop: Shop) -> None:
    @small_shop.app.task(retry=AT_ONCE)
    async def works(ctx: Context) -> None:
        async def maybe() -> None:
            if ctx.attempt < 2:
                await ctx.emit("rash")
                await ctx.flush()
                raise RuntimeError("once more")

        await ctx.gather(ctx.step("maybe", maybe), ctx.step("other", asyncio.sleep, 0))

    async with small_shop.working():
        job = await works.aenqueue()
        await job.aresult(SOON)
    assert [frame.data for frame in small_shop.app.streams.read(job).frames if not frame.control] == []
