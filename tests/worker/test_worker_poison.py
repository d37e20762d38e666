"""A job that kills its worker is found out, and its neighbours are never blamed."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

from holdfast import Context
from holdfast.worker.worker import Worker
from tests.patience import SOON

from . import isolated_tasks
from .worker_kit import AT_ONCE, Shop, live


async def lose(shop: Shop, worker: Worker) -> int:
    """What others do when a worker's process has died: its handlers are gone, its jobs are rescued."""
    rescued = await asyncio.to_thread(shop.app.workers.rescue, worker.id)
    await shop.beat(worker)
    return rescued


@live
async def test_a_job_that_kills_its_worker_is_convicted_in_a_process_of_its_own(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop.borrow(isolated_tasks.app)
    task = isolated_tasks.poison if shop.store.backend == "postgres" else isolated_tasks.segfault
    poison = await app.aenqueue(task.options(max_attempts=10).job())
    neighbours = await app.aenqueue_many([isolated_tasks.innocent.job(n) for n in range(20)])
    # Its first two runs took a worker down each, with all that ran there: all of them are suspects now.
    shop.alter("update holdfast_live set suspect = 1, due = 3, losses = 2, attempts = 2")
    async with shop.working(concurrency=10) as worker:
        assert worker.runner._isolates
        record = await shop.until_ended(poison)
        assert (record.state, record.reason) == ("failed", "worker_lost")
        assert (record.crashes, record.attempts) == (3, 5)
        assert [await job.aresult(SOON) for job in neighbours] == list(range(20))
    assert {(await job.astatus()).crashes for job in neighbours} == {0}
    assert [a.outcome for a in await app.jobs.aattempts(poison.id)] == ["crashed", "crashed", "worker_lost"]
    assert "the child process died" in caplog.text
    assert json.loads(record.error or "")["type"] == "WorkerLost"


@live
async def test_a_suspect_runs_in_a_process_of_its_own_and_is_cleared_by_any_outcome(shop: Shop) -> None:
    app = shop.borrow(isolated_tasks.app)
    job = await app.aenqueue(isolated_tasks.where.job())
    shop.alter("update holdfast_live set suspect = 1, due = 3, attempts = 1")
    async with shop.working():
        assert await job.aresult(SOON) != os.getpid()
        trusted = await app.aenqueue(isolated_tasks.where.job())
        assert await trusted.aresult(SOON) == os.getpid()


@live
async def test_suspects_run_a_few_at_a_time_while_other_jobs_go_on(shop: Shop) -> None:
    app = shop.borrow(isolated_tasks.app)
    suspects = await app.aenqueue_many([isolated_tasks.where.job() for _ in range(6)])
    shop.alter("update holdfast_live set suspect = 1, due = 3")
    worker = shop.worker(concurrency=10)
    await shop.store.awrite(_registration(worker))
    await worker.claimer.run_once()
    assert worker.runner.runs.suspects == 4
    room = worker.runner.room()
    assert room is not None
    assert (room.n, room.suspects, room.alone) == (6, 0, False)
    await worker.start()
    for job in suspects:
        assert (await shop.until_ended(job)).state == "succeeded"
    await worker.stop()


def _registration(worker: Worker) -> Any:
    from holdfast.storage.ops.workers import workers
    from holdfast.storage.port import Op
    from holdfast.worker.registration import introduction

    spec = introduction(worker.id, worker.settings, worker.routes.queues, worker._tasks)
    return Op(lambda tx: workers.register(tx, spec))


@live
async def test_an_isolated_job_that_dies_three_times_is_given_up(shop: Shop) -> None:
    app = shop.borrow(isolated_tasks.app)
    async with shop.working():
        job = await app.aenqueue(isolated_tasks.exits_hard.options(max_attempts=10, retry=AT_ONCE).job())
        record = await shop.until_ended(job)
        assert (record.state, record.reason, record.attempts, record.crashes) == ("failed", "worker_lost", 3, 3)
        once = await app.aenqueue(isolated_tasks.exits_hard.job())
        record = await shop.until_ended(once)
        assert (record.state, record.reason, record.attempts) == ("failed", "worker_lost", 1)


@live
async def test_losses_shared_with_neighbours_convict_nobody(shop: Shop) -> None:
    app = shop.app
    begun: asyncio.Queue[int] = asyncio.Queue()

    @app.task(max_attempts=None, retry=AT_ONCE)
    async def unlucky(ctx: Context) -> str:
        begun.put_nowait(ctx.attempt)
        if ctx.attempt <= 5:
            await asyncio.Event().wait()
        return "survived"

    async with shop.working() as worker:
        job = await unlucky.aenqueue()
        for _ in range(5):
            await begun.get()
            # As if it had run beside others each time.
            shop.alter("update holdfast_live set alone = 0")
            assert await lose(shop, worker) == 1
        assert await job.aresult(SOON) == "survived"
    assert (await job.astatus()).crashes == 0


# -- tasks of __main__ or inside a function: no child process could import them


@live
async def test_where_tasks_cannot_be_imported_a_suspect_is_claimed_by_an_idle_worker_alone(shop: Shop) -> None:
    app = shop.app
    order: asyncio.Queue[str] = asyncio.Queue()
    go, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def ordinary(n: int) -> None:
        order.put_nowait(f"ordinary {n}")
        await go.wait()

    @app.task
    async def suspected() -> None:
        order.put_nowait("suspect")
        await go_on.wait()

    async with shop.working(concurrency=5) as worker:
        assert not worker.runner._isolates
        first = await ordinary.aenqueue(1)
        assert await order.get() == "ordinary 1"
        worker.state.closing = True
        while worker.outcomes.in_flight:  # a claim under way could take the next job, and hold its row
            await asyncio.sleep(0)
        suspect = await suspected.aenqueue()
        shop.alter("update holdfast_live set suspect = 1, due = 3 where id = ?", suspect.id)
        await worker.poller.run_once()
        worker.state.closing = False
        second = await ordinary.aenqueue(2)
        # Something runs, and a suspect waits: nothing joins, so that the worker falls idle.
        assert worker.state.suspects_wait
        assert worker.runner.room() is None
        go.set()
        assert await order.get() == "suspect"
        assert (await suspect.astatus()).alone == 1
        assert (await first.astatus()).state == "succeeded"
        # While it runs nothing joins it.
        assert worker.runner.room() is None
        assert (await second.astatus()).state == "ready"
        go_on.set()
        assert await order.get() == "ordinary 2"
        assert (await shop.until_ended(suspect)).state == "succeeded"


@live
async def test_where_tasks_cannot_be_imported_three_losses_alone_convict(shop: Shop) -> None:
    app = shop.app
    begun: asyncio.Queue[int] = asyncio.Queue()

    @app.task(max_attempts=10, retry=AT_ONCE)
    async def poison(ctx: Context) -> None:
        begun.put_nowait(ctx.attempt)
        await asyncio.Event().wait()

    @app.task(retry=AT_ONCE)
    async def innocent(ctx: Context, n: int) -> int:
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return n

    async with shop.working(concurrency=5) as worker:
        neighbours = await app.aenqueue_many([innocent.job(n) for n in range(3)])
        job = await poison.options(priority=1).aenqueue()
        assert await begun.get() == 1
        for neighbour in neighbours:
            await shop.until(neighbour, lambda r: r.state == "running")
        assert await lose(shop, worker) == 4
        for attempt in (2, 3, 4, 5):
            assert await begun.get() == attempt
            await shop.until(job, lambda r: r.state == "running")
            assert await lose(shop, worker) >= 1
        record = await shop.until_ended(job)
        assert (record.state, record.reason, record.crashes, record.attempts) == ("failed", "worker_lost", 3, 5)
        assert [await neighbour.aresult(SOON) for neighbour in neighbours] == [0, 1, 2]
    assert {(await neighbour.astatus()).crashes for neighbour in neighbours} == {0}


@live
async def test_a_suspect_that_is_not_for_this_worker_does_not_slow_it_down(shop: Shop) -> None:
    app = shop.app
    far = app.declare("far", queue="elsewhere")
    paused = app.declare("paused", queue="paused")

    @app.task
    async def near() -> str:
        return "ran"

    await far.aenqueue()
    await paused.aenqueue()
    shop.alter("update holdfast_live set suspect = 1, due = 3")
    await asyncio.to_thread(app.queues.pause, "paused")
    async with shop.working(queues=("default", "paused"), concurrency=5) as worker:
        await worker.poller.run_once()
        assert not worker.state.suspects_wait
        room = worker.runner.room()
        assert room is not None
        assert room.n == 5
        assert await (await near.aenqueue()).aresult(SOON) == "ran"
