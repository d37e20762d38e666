"""What running jobs say: stored in order before their outcome, in tasks of every colour."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import App, Context, SyncContext
from holdfast.errors import (
    FrameTooLarge,
    InvalidInput,
    StreamFull,
)
from holdfast.model.streams import MAX_FRAMES
from tests.patience import SOON

from . import streaming_tasks
from .stream_kit import follow, said
from .worker_kit import AT_ONCE, Shop, live

# -- every colour


@live
async def test_what_a_task_of_each_colour_says_is_followed_to_its_end(shop: Shop) -> None:
    @shop.app.task
    async def speaks(ctx: Context) -> None:
        for n in range(3):
            await ctx.emit(f"word {n}")
        await ctx.emit({"n": 3}, kind="data")
        await ctx.emit(b"\x00", best_effort=True)

    @shop.app.task
    def speaks_too(ctx: SyncContext) -> None:
        for n in range(3):
            ctx.emit(f"word {n}")
        ctx.emit({"n": 3}, kind="data")
        ctx.emit(b"\x00", best_effort=True)

    async with shop.working():
        for task in (speaks, speaks_too):
            job = await task.aenqueue()
            frames = await follow(shop, job)
            assert said(frames) == ["word 0", "word 1", "word 2", {"n": 3}, b"\x00"]
            assert [frame.cursor for frame in frames] == ["1.0", "2.0", "3.0", "4.0", "4.1"]
            assert await asyncio.to_thread(lambda: list(shop.app.stream(job.id))) == frames  # noqa: B023
            assert await follow(shop, job, after=frames[2].cursor) == frames[3:]
            assert said(await follow(shop, job, best_effort=False)) == said(frames)[:4]


@live
async def test_a_task_in_a_process_of_its_own_is_heard_like_any_other(
    real_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = real_shop
    monkeypatch.setenv("HOLDFAST_STORE", shop.url)
    app = shop.borrow(streaming_tasks.app)
    async with shop.working():
        job = await app.aenqueue(streaming_tasks.speaks_apart.job())
        log = {"level": "warning", "logger": "shop", "message": "logged"}
        assert said(await follow(shop, job)) == ["one", "printed\n", log]
        assert (await shop.app.streams.aprogress(job)).stage == "apart"
        assert (await shop.app.streams.asummary(job)).document == {"where": "apart"}
        failing = await app.aenqueue(streaming_tasks.speaks_apart_async.job())
        assert said(await follow(shop, failing)) == [{"n": 1}, "last words"]
        assert (await shop.until_ended(failing)).state == "failed"


@live
async def test_a_job_in_memory_is_followed_too(small_shop: Shop) -> None:
    shop = small_shop
    received = asyncio.Event()

    @shop.app.task
    async def speaks(ctx: Context) -> None:
        await ctx.emit("first")
        await received.wait()
        await ctx.emit("second")

    async with shop.working():
        job = await speaks.aenqueue()
        found = []
        async for frame in shop.app.astream(job):
            found.append(frame.data)
            received.set()
        assert found == ["first", "second"]


# -- progress


@live
async def test_progress_is_coalesced_and_its_last_word_is_there_with_the_outcome(
    small_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[Any] = []
    desk = small_shop.app.streams._desk
    write = desk._write

    def counted(found: Any) -> Any:
        batches.extend(found)
        return write(found)

    monkeypatch.setattr(desk, "_write", counted)

    @small_shop.app.task
    async def works(ctx: Context) -> None:
        await ctx.progress(stage="loading", message="begins")
        for n in range(1, 5_001):
            await ctx.progress(percent=n / 50)
        await ctx.progress(stage="sending")

    async with small_shop.working():
        job = await works.aenqueue()
        await job.aresult(SOON)
    found = small_shop.app.streams.progress(job)
    assert (found.percent, found.message, found.stage) == (100.0, "begins", "sending")
    assert len(batches) < 20


@live
async def test_progress_is_kept_when_the_run_fails_and_while_the_job_waits(shop: Shop) -> None:
    @shop.app.task(max_attempts=1)
    def fails(ctx: SyncContext) -> None:
        ctx.progress(percent=33, message="stuck")
        raise RuntimeError("here")

    @shop.app.task
    async def waits(ctx: Context) -> None:
        await ctx.progress(percent=10)
        await ctx.emit("before")
        await ctx.wait_for("go")
        await ctx.progress(message="after")
        await ctx.emit("after")

    async with shop.working():
        failing, waiting = await fails.aenqueue(), await waits.aenqueue()
        assert (await shop.until_ended(failing)).state == "failed"
        assert shop.app.streams.progress(failing).message == "stuck"
        await shop.until(waiting, lambda record: record.state == "suspended")
        assert shop.app.streams.progress(waiting).percent == 10
        assert said(list(shop.app.streams.read(waiting).frames)) == ["before"]
        await shop.app.asignal(waiting, "go")
        await waiting.aresult(SOON)
    found = shop.app.streams.progress(waiting)
    assert (found.percent, found.message) == (10, "after")
    # A task that is resumed begins from its top; outside of steps it says things again.
    assert said(list(shop.app.streams.read(waiting).frames)) == ["before", "before", "after"]


# -- bad input


@live
async def test_what_cannot_be_said_is_refused_where_it_is_said(small_shop: Shop) -> None:
    shop = small_shop
    refused: list[str] = []

    async def tries(what: Any, error: type[Exception]) -> None:
        with pytest.raises(error):
            await what
        refused.append(error.__name__)

    @shop.app.task
    async def wrong(ctx: Context) -> None:
        await tries(ctx.emit("x" * 65_537), FrameTooLarge)
        await tries(ctx.emit("x", kind="superseded"), InvalidInput)
        await tries(ctx.progress(percent=101), InvalidInput)
        await tries(ctx.progress(percent=float("nan")), InvalidInput)
        await tries(ctx.summarize(["a"]), InvalidInput)  # type: ignore[arg-type]
        await ctx.emit("x" * 65_536)

    async with shop.working():
        job = await wrong.aenqueue()
        await job.aresult(SOON)
    assert len(refused) == 5
    assert [len(frame.data) for frame in shop.app.streams.read(job).frames] == [65_536]


@live
async def test_a_full_stream_fails_the_job_for_good_even_if_it_is_found_out_at_the_end(shop: Shop) -> None:
    @shop.app.task(retry=AT_ONCE)
    async def once_more(ctx: Context) -> None:
        await ctx.emit("fits")
        await ctx.flush()
        shop.alter("update holdfast_stream set head = ?", MAX_FRAMES - 1)
        await ctx.emit("the last")
        await ctx.emit("one too many")

    @shop.app.task(retry=AT_ONCE)
    def is_told(ctx: SyncContext) -> str:
        ctx.emit("fits")
        ctx.flush()
        shop.alter("update holdfast_stream set head = ?", MAX_FRAMES)
        ctx.emit("one too many")
        with pytest.raises(StreamFull):
            ctx.flush()
        with pytest.raises(StreamFull):
            ctx.emit("another")
        ctx.emit("of no importance", best_effort=True)
        return "went on"

    async with shop.working():
        job = await once_more.aenqueue()
        record = await shop.until_ended(job)
        assert (record.state, record.reason, record.attempts) == ("failed", "permanent", 1)
        assert "StreamFull" in str(record.error)
        assert said(list(shop.app.streams.read(job).frames)) == ["fits", "the last"]
        assert await (await is_told.aenqueue()).aresult(SOON) == "went on"


# -- without a worker


def test_an_inline_job_keeps_what_it_says_in_memory(small_shop: Shop) -> None:
    @small_shop.app.task
    def speaks(ctx: SyncContext) -> str:
        ctx.emit("one")
        ctx.emit("two", best_effort=True)
        ctx.progress(percent=50)
        ctx.progress(message="half")
        assert ctx.summarize({"a": 1}) == 1
        assert ctx.summarize({"a": None, "b": "__holdfast_null__"}) == 2
        ctx.flush()
        return "done"

    @small_shop.app.task
    def silent() -> None: ...

    with small_shop.app.inline() as app:
        job = speaks.enqueue()
        assert job.result() == "done"
        assert [frame.data for frame in app.stream(job)] == ["one", "two"]
        assert app.streams.read(job, after="1.0").frames[0].data == "two"
        assert (app.streams.progress(job).percent, app.streams.progress(job).message) == (50, "half")
        assert app.streams.summary(job).document == {"b": None}
        assert list(app.stream(silent.enqueue())) == []


def test_a_drained_job_has_its_stream(small_shop: Shop) -> None:
    @small_shop.app.task
    async def speaks(ctx: Context) -> None:
        await ctx.emit("drained")

    job = speaks.enqueue()
    small_shop.app.drain()
    assert [frame.data for frame in small_shop.app.stream(job)] == ["drained"]


# -- where frames came from, and ranges of them


@live
async def test_frames_keep_their_source_and_correlation_id(shop: Shop) -> None:
    @shop.app.task
    async def speaks(ctx: Context) -> None:
        await ctx.emit("a", source="search", correlation_id="call-7")
        await ctx.emit("b")

    @shop.app.task
    def speaks_too(ctx: SyncContext) -> None:
        ctx.emit("a", source="search", correlation_id="call-7")
        ctx.emit("b")

    async with shop.working():
        for task in (speaks, speaks_too):
            frames = await follow(shop, await task.aenqueue())
            assert [(f.source, f.correlation_id) for f in frames] == [("search", "call-7"), (None, None)]


@live
async def test_a_page_can_end_at_a_cursor(shop: Shop) -> None:
    @shop.app.task
    async def counts(ctx: Context) -> None:
        for n in range(5):
            await ctx.emit(n)

    job = counts.enqueue()
    await shop.app.adrain()
    streams = shop.app.streams
    page = streams.read(job, after="1.0", until="3.0")
    assert ([frame.data for frame in page.frames], page.cursor, page.closed) == ([1, 2], "3.0", False)
    assert await streams.aread(job, after="1.0", until="3.0") == page
    assert streams.read(job, until="5.0").closed


def test_frames_of_inline_jobs_have_them_too() -> None:
    app = App(":memory:")

    @app.task
    def speaks(ctx: SyncContext) -> None:
        ctx.emit("a", source="search")
        ctx.emit("b")

    with app.inline():
        job = speaks.enqueue()
        page = app.streams.read(job, until="1.0")
        assert [(frame.data, frame.source) for frame in page.frames] == [("a", "search")]
