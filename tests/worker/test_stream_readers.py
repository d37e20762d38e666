"""Readers of what jobs say: while they run, from a cursor, and at no cost while nothing is said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Context, Job
from holdfast.errors import (
    CursorExpired,
    InvalidCursor,
    InvalidInput,
    NotFound,
)
from holdfast.storage.ops import streams
from tests.patience import SOON

from .stream_kit import follow, said
from .worker_kit import Shop, live

# -- readers


@live
async def test_a_reader_hears_each_frame_while_the_job_runs_and_ends_with_it(shop: Shop) -> None:
    claimer: asyncio.Queue[int] = asyncio.Queue()

    @shop.app.task
    async def answers(ctx: Context) -> None:
        for _ in range(5):
            await ctx.emit(await claimer.get())

    async with shop.working():
        job = await answers.aenqueue()
        claimer.put_nowait(0)
        found = []
        async for frame in shop.app.astream(job):
            found.append(frame.data)
            claimer.put_nowait(frame.data + 1)
        assert found == [0, 1, 2, 3, 4]


@live
async def test_a_blocking_reader_hears_them_as_well(small_shop: Shop) -> None:
    claimer: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    @small_shop.app.task
    async def answers(ctx: Context) -> None:
        for _ in range(5):
            await ctx.emit(await claimer.get())

    def converse(job: Job[Any]) -> list[Any]:
        found = []
        for frame in small_shop.app.stream(job):
            found.append(frame.data)
            loop.call_soon_threadsafe(claimer.put_nowait, frame.data + 1)
        return found

    async with small_shop.working():
        job = await answers.aenqueue()
        claimer.put_nowait(0)
        assert await asyncio.to_thread(converse, job) == [0, 1, 2, 3, 4]


@live
async def test_a_reader_that_begins_before_the_job_waits_for_it(shop: Shop) -> None:
    @shop.app.task
    async def speaks(ctx: Context) -> None:
        await ctx.emit("at last")

    job = await speaks.aenqueue()
    reader = asyncio.create_task(follow(shop, job))
    await asyncio.sleep(0)
    async with shop.working():
        assert said(await reader) == ["at last"]


@live
async def test_a_reader_of_a_silent_job_ends_with_it(small_shop: Shop) -> None:
    @small_shop.app.task
    async def silent() -> None: ...

    job = await silent.aenqueue()
    reader = asyncio.create_task(follow(small_shop, job))
    await asyncio.sleep(0)
    async with small_shop.working():
        assert await reader == []


@live
async def test_a_reader_that_waits_asks_the_store_for_nothing_while_other_jobs_come_and_go(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    read = streams.read

    async def counted(tx: Any, job_id: str, *args: Any, **kwargs: Any) -> Any:
        looks.append(job_id)
        return await read(tx, job_id, *args, **kwargs)

    monkeypatch.setattr(streams, "read", counted)
    begun, go = asyncio.Event(), asyncio.Event()

    @shop.app.task
    async def speaks(ctx: Context) -> None:
        begun.set()
        await go.wait()
        await ctx.emit("at last")

    @shop.app.task
    async def others(ctx: Context) -> None:
        await ctx.emit("of no concern")

    async with shop.working(concurrency=20):
        job = await speaks.aenqueue()
        readers = [asyncio.create_task(follow(shop, job)) for _ in range(5)]
        await begun.wait()
        many = await shop.app.aenqueue_many([others.job() for _ in range(100)])
        begun_at = asyncio.get_running_loop().time()
        await asyncio.gather(*(other.aresult(SOON) for other in many))
        # Each looked when it came, and then ever less often: a few times in a second, not for each of the others.
        assert len(looks) <= 5 * (12 + 20 * (asyncio.get_running_loop().time() - begun_at))
        go.set()
        assert [said(await reader) for reader in readers] == [["at last"]] * 5


@live
async def test_a_page_waits_for_its_first_frame_and_no_longer_than_it_may(small_shop: Shop) -> None:
    go = asyncio.Event()

    @small_shop.app.task
    async def speaks(ctx: Context) -> None:
        await go.wait()
        await ctx.emit("word")
        await ctx.flush()
        await asyncio.Event().wait()

    job = await speaks.aenqueue()
    page = await small_shop.app.streams.atail(job, timeout=0.01)
    assert (page.frames, page.cursor, page.closed) == ((), "0.0", False)
    assert await follow(small_shop, job, timeout=0.01) == []
    async with small_shop.working():
        waiting = asyncio.create_task(small_shop.app.streams.atail(job, after=page.cursor, timeout=SOON))
        go.set()
        page = await waiting
        assert (said(list(page.frames)), page.cursor, page.closed) == (["word"], "1.0", False)
        assert await asyncio.to_thread(small_shop.app.streams.tail, job, timeout=SOON) == page


@live
async def test_cursors_and_jobs_that_make_no_sense_are_refused(small_shop: Shop) -> None:
    streams = small_shop.app.streams

    @small_shop.app.task
    async def work() -> None: ...

    job = await work.aenqueue()
    for after in ("", "x", "1", "1.0.0", "-1.0"):
        with pytest.raises(InvalidCursor):
            streams.read(job, after=after)
        with pytest.raises(InvalidCursor):
            small_shop.app.stream(job, after=after)
        with pytest.raises(InvalidCursor):
            small_shop.app.astream(job, after=after)
    with pytest.raises(InvalidCursor, match="end of the stream"):
        streams.read(job, after="1.0")
    with pytest.raises(NotFound):
        streams.read("nobody")
    with pytest.raises(NotFound):
        next(small_shop.app.stream("nobody", timeout=0))
    for limit in (0, 10_001, True):
        with pytest.raises(InvalidInput, match="limit"):
            streams.read(job, limit=limit)


@live
async def test_a_cursor_from_before_the_trimming_has_expired_and_durable_frames_have_not(shop: Shop) -> None:
    go = asyncio.Event()

    @shop.app.task
    async def floods(ctx: Context) -> None:
        await ctx.emit("kept")
        await ctx.emit("early", best_effort=True)
        await ctx.flush()
        await go.wait()
        for n in range(299):
            await ctx.emit(n, best_effort=True)
        await ctx.flush()
        # As if all that had been said long ago.
        shop.alter("update holdfast_stream set rate = 0, rate_at = 0")
        await ctx.emit(299, best_effort=True)
        await ctx.emit("kept too")

    async with shop.working():
        job = await floods.aenqueue()
        first = await shop.app.streams.atail(job)
        go.set()
        await job.aresult(SOON)
    with pytest.raises(CursorExpired) as expired:
        shop.app.streams.read(job, after=first.cursor)
    rest = shop.app.streams.read(job, after=expired.value.oldest)
    assert rest.frames[-1].data == "kept too"
    assert said([f for f in rest.frames if f.best_effort]) == list(range(300 - 64, 300))
    durable = shop.app.streams.read(job, best_effort=False)
    assert said(list(durable.frames)) == ["kept", "kept too"]
