"""Operators and running work: a revoked job's handler is stopped, a worker that is declared dead fences itself."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Context, InvalidInput, NotFound
from holdfast.model.actions import ActionResult
from tests.patience import SOON

from .worker_kit import Shop, live


@live
async def test_the_handler_of_a_revoked_job_is_stopped_and_the_job_runs_again(real_shop: Shop) -> None:
    shop, app = real_shop, real_shop.app
    begun: asyncio.Queue[int] = asyncio.Queue()
    stopped = asyncio.Event()
    let_go = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> int:
        begun.put_nowait(ctx.attempt)
        try:
            await let_go.wait()
        except asyncio.CancelledError:
            stopped.set()
            raise
        return ctx.job.epoch

    async with shop.working(concurrency=2) as worker:
        job = await work.aenqueue()
        assert await begun.get() == 1
        held = await job.astatus()
        answer = await app.jobs.arevoke(job, owner=worker.id, actor="ann", reason="stuck")
        assert answer is ActionResult.REVOKED
        await stopped.wait()
        # At no cost: it is its first attempt again.
        assert await begun.get() == 1
        let_go.set()
        assert await job.aresult(SOON) > held.epoch + 1
    assert [record.action for record in app.audit.list()] == ["job.revoke"]


@live
async def test_every_action_on_a_job_leaves_a_record_whoever_acts(shop: Shop) -> None:
    app = shop.app

    @app.task
    async def work() -> None: ...

    first, second = [await work.options(delay=100).aenqueue() for _ in range(2)]
    await app.jobs.arun_now(first.id)
    await first.acancel()
    await app.jobs.aretry(first.id)
    await app.jobs.adelete(first.id)
    await app.jobs.acancel(second.id, actor="ann")
    # Nothing is done any more.
    await second.acancel()
    records = [(one.action, one.actor, one.target) for one in reversed(app.audit.list())]
    done = [(f"job.{action}", "app", first.id) for action in ("run_now", "cancel", "retry", "delete")]
    assert records == [*done, ("job.cancel", "ann", second.id)]
    told = [event.kind for event in app.events.read(job=first.id)]
    assert told == [
        "operator.job.run_now", "job.cancelled", "operator.job.cancel", "operator.job.retry", "job.cancelled",
        "operator.job.delete",
    ]  # fmt: skip


@live
async def test_a_worker_that_is_declared_dead_stops_its_handlers_and_goes_on_under_a_new_identity(
    real_shop: Shop,
) -> None:
    shop, app = real_shop, real_shop.app
    begun: asyncio.Queue[int] = asyncio.Queue()
    stopped = asyncio.Event()
    let_go = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> str:
        begun.put_nowait(ctx.attempt)
        try:
            await let_go.wait()
        except asyncio.CancelledError:
            stopped.set()
            raise
        return ctx.job.worker

    async with shop.working(concurrency=2) as worker:
        job, before = await work.aenqueue(), worker.id
        assert await begun.get() == 1
        on_declared_lost = await app.workers.amark_dead(before, "its host is on fire", actor="ann")
        assert (on_declared_lost.rescued, on_declared_lost.again) == (1, False)
        await stopped.wait()
        # Its job was lost once, and runs again where nobody else suffers for it: here, by the worker born anew.
        assert await begun.get() == 2
        let_go.set()
        assert await job.aresult(SOON) == worker.id != before
    again = await app.workers.amark_dead(before, "its host is on fire")
    assert (again.rescued, again.again) == (0, True)
    assert [record.action for record in app.audit.list()] == ["worker.dead"]


def test_a_worker_is_declared_dead_for_a_reason_that_can_be_read(small_shop: Shop) -> None:
    workers = small_shop.app.workers
    for reason in ("", "x" * 257, "line\nline", "é" * 129):
        with pytest.raises(InvalidInput):
            workers.mark_dead("some", reason)
    with pytest.raises(NotFound):
        workers.mark_dead("some", "é" * 128)
