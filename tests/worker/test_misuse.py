"""Waits that could not end, and what is said about them, on both stores."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest

import holdfast
from holdfast.client import watch
from tests.patience import SOON

from .worker_kit import Shop, live


def test_a_task_that_waits_for_a_job_in_its_thread_fails_at_once_and_names_what_to_use(shop: Shop) -> None:
    @shop.app.task
    def inner() -> int:
        return 1

    @shop.app.task
    def outer() -> int:
        return inner.enqueue().result()

    job = outer.enqueue()
    shop.app.drain()
    with pytest.raises(holdfast.JobFailed, match=r"BlockingCall: .*ctx\.wait_for\(job\).*flow"):
        job.result()


@live
@pytest.mark.parametrize("wait", ["aresult", "await_"])
async def test_a_task_that_awaits_a_job_or_a_flow_of_its_own_app_fails_at_once(shop: Shop, wait: str) -> None:
    @shop.app.task
    async def inner() -> int:
        return 1

    @shop.app.task
    async def outer() -> object:
        return await getattr(await inner.aenqueue(), wait)()

    @shop.app.task
    async def flowing() -> object:
        async with shop.app.flow("f") as flow:
            flow.add(inner.job())
        return await getattr(flow, wait)()

    @shop.app.task
    async def looking() -> object:
        return await getattr(await inner.aenqueue(), wait)(0)

    async with shop.working(concurrency=1):
        for task in (outer, flowing):
            with pytest.raises(holdfast.JobFailed, match=r"BlockingCall: .*ctx\.wait_for\(job\).*flow"):
                await (await task.aenqueue()).aresult(SOON)
        with pytest.raises(holdfast.JobFailed, match="ResultTimeout"):
            await (await looking.options(max_attempts=1).aenqueue()).aresult(SOON)


@live
async def test_a_task_may_await_a_job_of_another_app(shop: Shop, small_shop: Shop) -> None:
    @small_shop.app.task
    async def there() -> int:
        return 1

    @shop.app.task
    async def here() -> int:
        return await (await there.aenqueue()).aresult(SOON)

    async with shop.working(concurrency=1), small_shop.working(concurrency=1):
        assert await (await here.aenqueue()).aresult(SOON) == 1


@live
async def test_a_blocking_read_of_a_stream_in_an_event_loop_names_the_awaiting_one(shop: Shop) -> None:
    @shop.app.task
    def work() -> int:
        return 1

    job = await work.aenqueue()
    with pytest.raises(holdfast.errors.BlockingCall, match=r"async for frame in app\.astream\(job\)"):
        shop.app.stream(job)
    with pytest.raises(holdfast.errors.BlockingCall, match=r"await app\.streams\.atail\(job\)"):
        shop.app.streams.tail(job)
    assert shop.app.streams.tail(job, timeout=0).frames == ()


def test_a_task_that_reads_a_stream_in_its_thread_fails_at_once(shop: Shop) -> None:
    @shop.app.task
    def inner() -> int:
        return 1

    @shop.app.task
    def reader() -> object:
        return list(shop.app.stream(inner.enqueue()))

    @shop.app.task
    def tailing() -> object:
        return shop.app.streams.tail(inner.enqueue()).frames

    jobs = [reader.enqueue(), tailing.enqueue()]
    shop.app.drain()
    for job in jobs:
        with pytest.raises(holdfast.JobFailed, match=r"BlockingCall: .*astream|atail"):
            job.result()


@pytest.mark.parametrize("awaiting", [False, True])
def test_a_reader_of_a_stream_that_nobody_works_for_says_so_in_the_log(
    shop: Shop, awaiting: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.app.task(queue="mail")
    def work() -> None: ...

    monkeypatch.setattr(watch, "PATIENCE", 0.01)
    job = work.enqueue()

    async def follow() -> list[object]:
        return [frame async for frame in shop.app.astream(job, timeout=0.3)]

    with caplog.at_level(logging.WARNING, "holdfast"):
        assert (asyncio.run(follow()) if awaiting else list(shop.app.stream(job, timeout=0.3))) == []
    assert caplog.messages == [
        f"job {job.id} has not ended after 0.01 s: no worker is alive for queue 'mail'; "
        "start one with: holdfast worker MODULE:APP"
    ]


@live
async def test_a_blocking_wait_in_an_event_loop_is_refused_and_a_look_is_not(shop: Shop) -> None:
    @shop.app.task
    def work() -> int:
        return 1

    job = await work.aenqueue()
    async with shop.app.flow("f") as flow:
        flow.add(work.job())
    for wait in (job.result, job.wait, flow.wait, flow.result):
        with pytest.raises(holdfast.errors.BlockingCall, match="await (job|flow).aresult"):
            wait()
    with pytest.raises(holdfast.ResultTimeout):
        job.result(timeout=0)


def test_a_wait_that_takes_too_long_says_what_holds_the_job(shop: Shop) -> None:
    @shop.app.task(queue="mail")
    def work() -> None: ...

    job = work.enqueue()
    for wait in (job.wait, job.result, lambda s: asyncio.run(job.await_(s)), lambda s: asyncio.run(job.aresult(s))):
        with pytest.raises(holdfast.ResultTimeout, match="no worker is alive for queue 'mail'"):
            wait(0.01)
    shop.app.queues.pause("mail")
    with pytest.raises(holdfast.ResultTimeout, match="queue 'mail' is paused"):
        job.wait(0)


@pytest.mark.parametrize("awaiting", [False, True])
def test_a_long_wait_that_nobody_works_for_says_so_in_the_log(
    shop: Shop, awaiting: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.app.task(queue="mail")
    def work() -> None: ...

    monkeypatch.setattr(watch, "PATIENCE", 0.01)
    job = work.enqueue()
    with caplog.at_level(logging.WARNING, "holdfast"), pytest.raises(holdfast.ResultTimeout):
        asyncio.run(job.await_(0.1)) if awaiting else job.wait(0.1)
    hint = " (await job waits for its result; await task.aenqueue(…) only enqueues)" if awaiting else ""
    assert caplog.messages == [
        f"job {job.id} has not ended after 0.01 s: no worker is alive for queue 'mail'; "
        f"start one with: holdfast worker MODULE:APP{hint}"
    ]


def test_a_signal_of_another_name_than_the_job_waits_for_is_kept_and_told(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.app.task
    def waits(ctx: holdfast.SyncContext) -> object:
        return [ctx.wait_for("approval"), ctx.wait_for("aproval")]

    job = waits.enqueue()
    assert shop.app.signal(job, "early").waits_for == ()
    shop.app.drain()
    with caplog.at_level(logging.WARNING, "holdfast"):
        sent = shop.app.signal(job, "aproval", 1)
    assert (sent.effect, sent.waits_for) == ("stored", ("approval",))
    assert caplog.messages == [f"job {job.id} waits for 'approval'; signal {sent.seq} is kept for later"]
    right = shop.app.signal(job, "approval", 2)
    assert (right.effect, right.waits_for) == ("resumed", ())
    shop.app.drain()
    assert job.result() == [2, 1]


def test_pausing_a_queue_that_nobody_knows_is_done_and_warned_of(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    @shop.app.task(queue="mail")
    def work() -> None: ...

    work.enqueue()
    with caplog.at_level(logging.WARNING, "holdfast"):
        assert shop.app.queues.pause("mail").state == "paused"
        assert asyncio.run(shop.app.queues.apause("mial")).state == "paused"
        shop.app.queues.resume("mial")
    assert caplog.messages == ["queue 'mial' has no jobs, settings or workers so far; those that have are mail"]


def test_a_wait_for_a_job_that_retries_says_what_its_last_error_was(shop: Shop) -> None:
    @shop.app.task
    def divide() -> float:
        return 1 / 0

    job = divide.enqueue()
    shop.app.drain()
    with pytest.raises(holdfast.ResultTimeout, match=r"attempt 1 of 5\): ZeroDivisionError: division by zero"):
        job.result(timeout=0)


def test_a_job_of_a_transaction_that_was_rolled_back_is_not_found_and_told_why(shop: Shop) -> None:
    @shop.app.task
    def work() -> None: ...

    shop.app.migrate()
    with psycopg.connect(shop.url) if shop.url.startswith("postgres") else closing(shop.app.connect()) as mine:
        mine.execute("begin" if mine.__class__.__module__.startswith("psycopg") else "begin immediate")
        job = work.options(connection=mine).enqueue()
        mine.rollback()
    for ask in (job.status, job.cancel, lambda: job.result(timeout=0), lambda: asyncio.run(job.aresult(timeout=0))):
        with pytest.raises(holdfast.NotFound, match="transaction it was enqueued in has been committed"):
            ask()


def test_the_attempts_of_a_job_that_is_not_there_are_not_found(shop: Shop) -> None:
    @shop.app.task
    def work() -> None: ...

    assert shop.app.jobs.attempts(work.enqueue().id) == []
    with pytest.raises(holdfast.NotFound):
        shop.app.jobs.attempts("nope")
    with pytest.raises(holdfast.NotFound):
        asyncio.run(shop.app.jobs.aattempts("nope"))


def test_what_the_state_of_a_job_forbids_is_told_with_what_to_do(shop: Shop) -> None:
    @shop.app.task
    def work() -> None: ...

    job, jobs = work.enqueue(), shop.app.jobs
    refusals = [lambda: jobs.retry(job.id), lambda: shop.app.signals.resume(job.id)]
    told = [_message(refusal) for refusal in refusals]
    shop.app.drain()
    refusals = [lambda: jobs.run_now(job.id), lambda: jobs.set_priority(job.id, 3), lambda: jobs.hold(job.id)]
    told += [_message(refusal) for refusal in (*refusals, lambda: shop.app.signal(job, "go"))]
    assert all(text.count(";") >= (2 if "only a" in text else 1) for text in told), told


def _message(refused: Callable[[], object]) -> str:
    with pytest.raises(holdfast.errors.Conflict) as told:
        refused()
    return str(told.value)
