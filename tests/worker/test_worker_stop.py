"""A worker that is asked to stop loses nothing and finishes nothing twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast import SyncContext
from holdfast.model.jobs import Claimed
from holdfast.worker.processes.identity import is_gone
from tests.patience import SOON

from . import isolated_tasks
from .worker_kit import Shop, key_of, live, read_pipe


@live
async def test_a_stopping_worker_claims_no_more_and_lets_running_jobs_end(real_shop: Shop) -> None:
    app = real_shop.app
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> str:
        begun.set()
        await go.wait()
        return "done"

    worker = real_shop.worker()
    await worker.start()
    job = await slow.aenqueue()
    await begun.wait()
    stopping = asyncio.create_task(worker.stop(grace=20))
    await real_shop.until(job, lambda _: worker.state.closing)
    later = await slow.aenqueue()
    assert worker.runner.room() is None
    assert [w.state for w in await asyncio.to_thread(app.workers.list)] in (["alive"], ["stopping"])
    go.set()
    await stopping
    assert (await job.astatus()).state == "succeeded"
    assert (await later.astatus()).state == "ready"
    assert (await later.astatus()).attempts == 0
    assert app.workers.list() == []


@live
async def test_what_is_not_done_when_the_grace_ends_is_ready_again_at_no_cost(
    real_shop: Shop, pipe: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = real_shop.borrow(isolated_tasks.app)
    begun, on_thread, release = asyncio.Event(), threading.Event(), threading.Event()

    @app.task
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    @app.task
    def deaf() -> str:
        on_thread.set()
        release.wait()
        return "too late"

    worker = real_shop.worker(cancel_grace=0.1)
    await worker.start()
    jobs = [await endless.aenqueue(), await deaf.aenqueue()]
    jobs.append(await app.aenqueue(isolated_tasks.hangs.job(str(pipe))))
    await begun.wait()
    await asyncio.to_thread(on_thread.wait)
    child = key_of(await read_pipe(pipe))
    await worker.stop(grace=0.05)
    release.set()
    for job in jobs:
        record = await job.astatus()
        assert (record.state, record.reason, record.due) == ("ready", "shutdown", 1)
        assert (record.attempts, record.crashes, record.suspect, record.owner) == (0, 0, 0, None)
    assert is_gone(child)
    assert app.workers.list() == []
    assert "3 jobs did not end within 0.05 s" in caplog.text


@live
async def test_another_worker_takes_over_at_once_what_a_stopping_one_hands_back(real_shop: Shop) -> None:
    app = real_shop.app
    attempts: asyncio.Queue[int] = asyncio.Queue()
    go = asyncio.Event()

    @app.task(max_attempts=1)
    async def resumes() -> str:
        attempts.put_nowait(1)
        await go.wait()
        return "done"

    first = real_shop.worker()
    await first.start()
    job = await resumes.aenqueue()
    await attempts.get()
    # It polls every minute only: the wakeups tells it.
    async with real_shop.working():
        await first.stop(grace=0)
        await attempts.get()
        go.set()
        assert await job.aresult(SOON) == "done"
    assert (await job.astatus()).attempts == 1


@live
async def test_a_success_within_the_cancel_grace_of_a_stop_is_recorded(real_shop: Shop) -> None:
    app = real_shop.app
    begun = threading.Event()

    @app.task
    def saves(ctx: SyncContext) -> str:
        begun.set()
        return f"saved {ctx.wait_cancelled(SOON)}"

    worker = real_shop.worker()
    await worker.start()
    job = await saves.aenqueue()
    await asyncio.to_thread(begun.wait)
    await worker.stop(grace=0)
    assert await job.aresult(SOON) == "saved True"


@live
async def test_jobs_of_a_claim_under_way_when_the_stop_comes_are_handed_back_unstarted(shop: Shop) -> None:
    app = shop.app
    runs: list[int] = []

    @app.task
    async def note(n: int) -> None:
        runs.append(n)

    jobs = await app.aenqueue_many([note.job(n) for n in range(3)])
    worker = shop.worker()
    claimed, go = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        claimed.set()
        await go.wait()

    async def hold_the_claim() -> None:
        # The first write is the registration, the next the claim.
        shop.store.after = hold

    shop.store.after = hold_the_claim
    await worker.start()
    await claimed.wait()
    stopping = asyncio.create_task(worker.stop())
    await shop.until(jobs[0], lambda _: worker.state.closing)
    go.set()
    await stopping
    assert runs == []
    for job in jobs:
        record = await job.astatus()
        assert (record.state, record.reason, record.attempts) == ("ready", "shutdown", 0)
    assert app.workers.list() == []


@live
async def test_a_coroutine_that_is_told_to_end_before_its_first_line_is_handed_back_at_once(small_shop: Shop) -> None:
    @small_shop.app.task
    async def runs() -> None: ...

    async with small_shop.working() as worker:
        dispatch = worker.runner.dispatch

        def dispatch_and_stop(jobs: Sequence[Claimed], claim: str) -> None:
            dispatch(jobs, claim)
            worker.state.closing = True
            worker.runner.stop_all("shutdown")

        worker.runner.dispatch = dispatch_and_stop  # type: ignore[method-assign]
        # No time passes here, so that no grace can end.
        await small_shop.until_again(await runs.aenqueue(), "shutdown")
        assert not worker.runner.runs


@live
async def test_many_jobs_through_workers_that_come_and_go_each_end_once(real_shop: Shop) -> None:
    app = real_shop.app
    done: list[int] = []

    @app.task(max_attempts=1)
    async def note(n: int) -> int:
        await asyncio.sleep(0)
        done.append(n)
        return n

    jobs = await app.aenqueue_many([note.job(n) for n in range(300)])
    while len(done) < len(jobs):
        worker = real_shop.worker(concurrency=20)
        await worker.start()
        before = len(done)
        await real_shop.until(jobs[0], lambda _, before=before: len(done) > before)
        await worker.stop(grace=0)
    records = [await job.astatus() for job in jobs]
    assert {(r.state, r.attempts) for r in records} == {("succeeded", 1)}
    assert sorted(done) == list(range(300))


@live
async def test_a_store_that_is_down_while_the_worker_leaves_does_not_hold_it_for_ever(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    worker = shop.worker(lease=2)
    await worker.start()
    shop.store.down = True
    async with asyncio.timeout(SOON):
        await worker.stop()
    shop.store.down = False
    assert "its lease will run out instead" in caplog.text
    assert [w.id for w in await asyncio.to_thread(shop.app.workers.list)] == [worker.id]


@live
async def test_an_interrupted_stop_leaves_no_thread_that_keeps_the_lease(shop: Shop) -> None:
    app = shop.app
    begun = asyncio.Event()

    @app.task
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    worker = shop.worker()
    await worker.start()
    await endless.aenqueue()
    await begun.wait()
    stopping = asyncio.create_task(worker.stop(grace=60))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert worker.lease.heartbeat.is_stopped
