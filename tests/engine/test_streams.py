"""What running jobs say: stored in order before their outcome, in tasks of every colour, and followed by readers."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from typing import Any

import pytest

from holdfast import Context, Job, StreamFull, SyncContext
from holdfast.errors import (
    CursorExpired,
    FrameTooLarge,
    InvalidCursor,
    InvalidInput,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    StorageUnavailable,
)
from holdfast.model.stream import MAX_FRAMES, Frame
from holdfast.storage.ops import streams
from holdfast.storage.port import Op

from . import streaming_tasks
from .worker_kit import AT_ONCE, Shop, live


async def follow(shop: Shop, job: Job[Any], **how: Any) -> list[Frame]:
    return [frame async for frame in shop.app.astream(job, **how)]


def said(frames: list[Frame]) -> list[Any]:
    return [frame.data for frame in frames]


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
    heard = asyncio.Event()

    @shop.app.task
    async def speaks(ctx: Context) -> None:
        await ctx.emit("first")
        await heard.wait()
        await ctx.emit("second")

    async with shop.working():
        job = await speaks.aenqueue()
        found = []
        async for frame in shop.app.astream(job):
            found.append(frame.data)
            heard.set()
        assert found == ["first", "second"]


# -- readers


@live
async def test_a_reader_hears_each_frame_while_the_job_runs_and_ends_with_it(shop: Shop) -> None:
    turns: asyncio.Queue[int] = asyncio.Queue()

    @shop.app.task
    async def answers(ctx: Context) -> None:
        for _ in range(5):
            await ctx.emit(await turns.get())

    async with shop.working():
        job = await answers.aenqueue()
        turns.put_nowait(0)
        found = []
        async for frame in shop.app.astream(job):
            found.append(frame.data)
            turns.put_nowait(frame.data + 1)
        assert found == [0, 1, 2, 3, 4]


@live
async def test_a_blocking_reader_hears_them_as_well(small_shop: Shop) -> None:
    turns: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    @small_shop.app.task
    async def answers(ctx: Context) -> None:
        for _ in range(5):
            await ctx.emit(await turns.get())

    def converse(job: Job[Any]) -> list[Any]:
        found = []
        for frame in small_shop.app.stream(job):
            found.append(frame.data)
            loop.call_soon_threadsafe(turns.put_nowait, frame.data + 1)
        return found

    async with small_shop.working():
        job = await answers.aenqueue()
        turns.put_nowait(0)
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
        await asyncio.gather(*(other.aresult(15) for other in many))
        # Each looked when it came, and then ever less often: a few times in a second, not for each of the others.
        assert len(looks) <= 5 * 12
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
        waiting = asyncio.create_task(small_shop.app.streams.atail(job, after=page.cursor, timeout=15))
        go.set()
        page = await waiting
        assert (said(list(page.frames)), page.cursor, page.closed) == (["word"], "1.0", False)
        assert await asyncio.to_thread(small_shop.app.streams.tail, job, timeout=5) == page


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
        next(small_shop.app.stream("nobody"))
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
        await job.aresult(15)
    with pytest.raises(CursorExpired) as expired:
        shop.app.streams.read(job, after=first.cursor)
    rest = shop.app.streams.read(job, after=expired.value.oldest)
    assert rest.frames[-1].data == "kept too"
    assert said([f for f in rest.frames if f.best_effort]) == list(range(300 - 64, 300))
    durable = shop.app.streams.read(job, best_effort=False)
    assert said(list(durable.frames)) == ["kept", "kept too"]


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
        await job.aresult(15)
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
        await waiting.aresult(15)
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
        await job.aresult(15)
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
        assert await (await is_told.aenqueue()).aresult(15) == "went on"


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
        shop.alter("update holdfast_job set owner = 'another', epoch = epoch + 1")
        told.set()
        await shop.beat(worker)
        await shop.until(job, lambda _: not worker.floor.runs)
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
        await job.aresult(15)
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
    assert shop.app.streams._desk._thread is None or not shop.app.streams._desk._outlets


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
        await job.aresult(15)
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
        await job.aresult(15)
    assert [frame.data for frame in small_shop.app.streams.read(job).frames if not frame.control] == []


# -- what is printed and logged


@live
async def test_what_a_job_prints_and_logs_becomes_its_frames_and_no_other_jobs(
    small_shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    both = threading.Barrier(2)
    log = logging.getLogger("shop.work")

    @small_shop.app.task(capture=("stdout", "stderr", "logs"))
    def prints(ctx: SyncContext, name: str) -> None:
        both.wait(10)
        print(f"out {name}")
        print(f"err {name}", file=sys.stderr)
        log.warning("log %s", name)
        sys.stdout.write("no end of line")

    @small_shop.app.task
    async def silent() -> None:
        print("not captured")

    async with small_shop.working(concurrency=4):
        jobs = [await prints.aenqueue(name) for name in "ab"]
        jobs.append(await silent.aenqueue())
        found = [[(f.kind, f.data) for f in await follow(small_shop, job)] for job in jobs]
    for name, frames in zip("ab", found, strict=False):
        assert frames == [
            ("stdout", f"out {name}\n"),
            ("stderr", f"err {name}\n"),
            ("log", {"level": "warning", "logger": "shop.work", "message": f"log {name}"}),
            ("stdout", "no end of line"),
        ]
    assert found[2] == []
    printed = capsys.readouterr().out
    assert all(line in printed for line in ("out a", "out b", "not captured")), "it still goes where it went"
    assert type(sys.stdout).__name__ != "_Tap"


@live
async def test_only_what_was_chosen_is_captured_and_long_lines_are_cut(small_shop: Shop) -> None:
    @small_shop.app.task(capture=["stdout"])
    async def prints() -> None:
        print("é" * 70_000)
        print("not this", file=sys.stderr)
        logging.getLogger("shop").error("nor this")

    async with small_shop.working():
        job = await prints.aenqueue()
        frames = await follow(small_shop, job)
    assert {frame.kind for frame in frames} == {"stdout"}
    assert "".join(said(frames)) == "é" * 70_000 + "\n"


@live
async def test_why_a_run_failed_is_in_its_captured_log(small_shop: Shop) -> None:
    @small_shop.app.task(capture=["logs"], max_attempts=1)
    async def fails() -> None:
        raise LookupError("it is not there")

    async with small_shop.working():
        job = await fails.aenqueue()
        (frame,) = await follow(small_shop, job)
    assert "it is not there" in frame.data["error"]


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
