"""A worker inside the user's own program."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from contextlib import suppress
from typing import Any

import pytest

from holdfast import Context, SyncContext
from holdfast.errors import SchemaMismatch
from tests.patience import SOON

from .worker_kit import Shop, live

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in SIGNALS]


def test_with_runs_a_worker_on_a_thread_and_touches_no_signal_handlers(real_shop: Shop) -> None:
    app = real_shop.app
    before = handlers()

    @app.task
    async def here(n: int) -> tuple[int, str]:
        return n, threading.current_thread().name

    @app.task
    def on_thread(ctx: SyncContext, n: int) -> int:
        return n

    with app.worker() as worker:
        assert handlers() == before
        assert worker.id
        n, thread = here.enqueue(1).result(SOON)
        assert (n, thread) == (1, "holdfast-worker")
        assert on_thread.enqueue(2).result(SOON) == 2
        assert [w.id for w in app.workers.list()] == [worker.id]
    assert handlers() == before
    assert app.workers.list() == []


@live
async def test_async_with_runs_a_worker_on_the_running_loop(real_shop: Shop) -> None:
    app = real_shop.app
    before = handlers()
    loops: list[asyncio.AbstractEventLoop] = []

    @app.task
    async def here() -> None:
        loops.append(asyncio.get_running_loop())

    async with app.worker() as worker:
        assert handlers() == before
        await (await here.aenqueue()).await_(SOON)
        assert [w.id for w in await asyncio.to_thread(app.workers.list)] == [worker.id]
    assert loops == [asyncio.get_running_loop()]
    assert await asyncio.to_thread(app.workers.list) == []


def test_an_exception_in_the_body_still_stops_the_worker(real_shop: Shop) -> None:
    app = real_shop.app

    @app.task
    async def here() -> None: ...

    with pytest.raises(LookupError, match="mine"), app.worker():
        raise LookupError("mine")
    assert app.workers.list() == []

    async def main() -> None:
        async with app.worker():
            raise LookupError("mine too")

    with pytest.raises(LookupError, match="mine too"):
        asyncio.run(main())
    assert app.workers.list() == []
    job = here.enqueue()
    with app.worker():
        assert job.wait(SOON) == "succeeded"


def test_leaving_the_body_waits_for_the_jobs_that_run(real_shop: Shop) -> None:
    app = real_shop.app
    begun, go = threading.Event(), threading.Event()

    @app.task
    def slow() -> str:
        begun.set()
        go.wait()
        return "done"

    with app.worker(grace=50):
        job = slow.enqueue()
        begun.wait()
        threading.Timer(0.1, go.set).start()
    assert job.state == "succeeded"


def test_a_handler_that_swallows_its_cancellation_does_not_keep_the_body_from_being_left(
    real_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = real_shop.app
    begun = threading.Event()

    @app.task
    async def stubborn() -> None:
        begun.set()
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    with app.worker(grace=0, cancel_grace=0.05):
        job = stubborn.enqueue()
        assert begun.wait(SOON)
    assert (job.state, job.status().reason) == ("ready", "shutdown")
    assert app.workers.list() == []
    assert "stubborn" in next(line for line in caplog.messages if "not waited for" in line)


def test_a_worker_that_cannot_start_says_so_where_it_was_entered(real_shop: Shop) -> None:
    app = real_shop.app
    app.open().migrate()
    real_shop.alter("alter table holdfast_worker rename to gone")
    with pytest.raises(SchemaMismatch), app.worker():
        pytest.fail("it has started")


@live
async def test_two_workers_in_one_process_share_the_work_and_do_not_rescue_each_other(real_shop: Shop) -> None:
    app = real_shop.app
    both = asyncio.Event()
    begun: list[str] = []

    @app.task(max_attempts=1)
    async def meets(ctx: Context) -> str:
        begun.append(ctx.id)
        if len(begun) == 2:
            both.set()
        await both.wait()
        return "met"

    async with app.worker(concurrency=1) as first, app.worker(concurrency=1) as second:
        assert first.id != second.id
        jobs = [await meets.aenqueue(), await meets.aenqueue()]
        assert [await job.aresult(SOON) for job in jobs] == ["met", "met"]
        for worker in (first, second):
            assert worker._worker is not None
            await worker._worker.services.rescuer.run_once()
        assert {w.id for w in await asyncio.to_thread(app.workers.list)} == {first.id, second.id}


def test_a_blocking_call_in_an_async_handler_is_named_in_the_log(
    real_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = real_shop.app
    named = threading.Event()

    class Look(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # On a busy machine other things hold the loop too.
            if "blocking_call" in record.getMessage():
                named.set()

    @app.task
    async def blocks() -> bool:
        return blocking_call(named)

    look = Look()
    logging.getLogger("holdfast.worker").addHandler(look)
    try:
        with app.worker(block_warning=0.05):
            assert blocks.enqueue().result(SOON)
    finally:
        logging.getLogger("holdfast.worker").removeHandler(look)
    assert "blocking_call" in caplog.text
    assert "test_worker_embedded.py" in caplog.text


def blocking_call(named: threading.Event) -> bool:
    return named.wait(20)


@live
async def test_a_loop_that_was_taken_for_dead_and_moves_again_takes_its_lease_up_again(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop.app

    @app.task
    async def note() -> str:
        return "ran"

    async with shop.working() as worker:
        await shop.beat(worker)
        # What the watchdog does where nobody else was told what to do.
        worker.lease.heartbeat.stop()
        await shop.pass_time_silently(26, worker)
        await asyncio.sleep(0)
        assert not worker.lease.heartbeat.is_stopped
        assert await shop.beat(worker)
        assert await (await note.aenqueue()).aresult(SOON) == "ran"
        assert [w.id for w in await asyncio.to_thread(app.workers.list)] == [worker.id]


@live
async def test_a_loop_that_was_taken_for_dead_after_its_fence_takes_its_lease_up_again(shop: Shop) -> None:
    @shop.app.task
    async def note() -> str:
        return "ran"

    async with shop.working() as worker:
        await shop.beat(worker)
        await shop.pass_time_silently(26, worker)
        await asyncio.sleep(0)
        assert worker.state.fenced
        # What the watchdog does where nobody else was told what to do.
        worker.lease.heartbeat.stop()
        await shop.pass_time_silently(10, worker)
        await asyncio.sleep(0)
        assert not worker.lease.heartbeat.is_stopped
        assert await shop.beat(worker)
        assert await (await note.aenqueue()).aresult(SOON) == "ran"


# -- a part that dies


async def dies() -> None:
    raise LookupError("nobody expected this")


@live
async def test_a_worker_of_which_a_part_dies_leaves_its_work_to_others(
    small_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = small_shop.app
    async with app.worker(grace=0) as embedded:
        assert embedded._worker is not None
        assert [worker.id for worker in await asyncio.to_thread(app.workers.list)] == [embedded.id]
        embedded._worker.background.send(dies())
        while await asyncio.to_thread(app.workers.list):
            await asyncio.sleep(0.01)
        assert embedded._worker.lease.heartbeat.is_stopped
    [record] = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert "a worker task crashed" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], LookupError)


def test_a_worker_on_a_thread_of_which_a_part_dies_leaves_too(real_shop: Shop) -> None:
    with real_shop.app.worker(grace=0) as embedded:
        assert embedded._loop is not None
        assert embedded._worker is not None
        left = threading.Event()
        real_stop = embedded._worker.stop

        async def stop() -> None:
            await real_stop()
            left.set()

        embedded._worker.stop = stop  # type: ignore[assignment, method-assign]
        background = embedded._worker.background
        embedded._loop.call_soon_threadsafe(lambda: background.send(dies()))
        assert left.wait(SOON)
        assert real_shop.app.workers.list() == []


def test_a_blocking_enqueue_on_the_workers_own_loop_does_not_deadlock(real_shop: Shop) -> None:
    app = real_shop.app

    @app.task
    async def child(n: int) -> int:
        return n

    @app.task
    async def parent(n: int) -> str:
        return child.enqueue(n).id

    with app.worker():
        jobs = app.enqueue_many([parent.job(n) for n in range(50)])
        children = [job.result(SOON) for job in jobs]
        for job_id in children:
            assert app.jobs.wait(job_id, SOON).state == "succeeded"
