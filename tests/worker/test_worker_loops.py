"""The worker's loops outlive their errors, and can be turned off."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.worker.running.deadlines import DeadlineTimer
from tests.patience import SOON

from .worker_kit import Shop, live


class Broken(Exception):
    pass


@live
async def test_the_turns_survive_errors_of_any_kind(small_shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    app = small_shop.app

    @app.task
    async def note() -> str:
        return "ran"

    async with small_shop.working() as worker:
        while worker.outcomes.may_have_work:
            await asyncio.sleep(0.005)

        async def broken() -> None:
            raise Broken("unheard of")

        small_shop.store.before = broken
        worker.outcomes.request_claim()
        job = await note.aenqueue()
        assert await job.aresult(SOON) == "ran"
    assert "Broken: unheard of" in caplog.text


@live
async def test_the_heartbeat_survives_errors_of_any_kind(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shop.working() as worker:

        def broken(op: Any) -> Any:
            raise Broken("unheard of")

        with monkeypatch.context() as patch:
            patch.setattr(shop.store, "write", broken)
            assert not await shop.beat(worker)
            worker.lease.heartbeat.beat_now()
        assert await shop.beat(worker)
        assert worker.lease.heartbeat._thread is not None
        assert worker.lease.heartbeat._thread.is_alive()


@live
async def test_the_ears_survive_errors_of_any_kind(small_shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    app = small_shop.app

    @app.task
    async def note() -> str:
        return "ran"

    async with small_shop.working(poll=0.05) as worker:
        real = worker.poller.run_once
        failed = asyncio.Event()

        async def broken() -> float:
            failed.set()
            raise Broken("unheard of")

        worker.poller.run_once = broken  # type: ignore[method-assign]
        await failed.wait()
        worker.poller.run_once = real  # type: ignore[method-assign]
        assert await (await note.aenqueue()).aresult(SOON) == "ran"
    assert "could not poll for work (Broken: unheard of)" in caplog.text


@live
async def test_rescuer_and_expirer_survive_their_errors(small_shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop = small_shop
    worker = shop.worker(rescue_interval=0.01, expire_interval=0.01)
    calls = {"rescuer": 0, "expirer": 0}
    enough = asyncio.Event()

    def broken(name: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            calls[name] += 1
            if min(calls.values()) >= 2:
                enough.set()
            raise Broken(name)

        return work

    worker.services.rescuer.run_once = broken("rescuer")  # type: ignore[method-assign]
    worker.services.expire = broken("expirer")  # type: ignore[method-assign,assignment]
    await worker.start()
    await enough.wait()
    await worker.stop()
    assert "rescuer failed (Broken: rescuer)" in caplog.text
    assert "expirer failed (Broken: expirer)" in caplog.text


@live
async def test_an_interval_of_zero_turns_rescuer_and_expirer_off(small_shop: Shop) -> None:
    shop = small_shop
    on = shop.worker(rescue_interval=0.01, expire_interval=0.01)
    off = shop.worker(rescue_interval=0, expire_interval=0)
    calls: list[str] = []
    both = asyncio.Event()

    def noted(name: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            calls.append(name)
            if {"on rescuer", "on expirer"} <= set(calls):
                both.set()

        return work

    for name, worker in (("on", on), ("off", off)):
        worker.services.rescuer.run_once = noted(f"{name} rescuer")  # type: ignore[method-assign]
        worker.services.expire = noted(f"{name} expirer")  # type: ignore[method-assign,assignment]
    await off.start()
    await on.start()
    await both.wait()
    await on.stop()
    await off.stop()
    assert set(calls) == {"on rescuer", "on expirer"}


@live
async def test_the_expirer_ends_jobs_that_wait_past_their_deadline(shop: Shop) -> None:
    task = shop.app.declare("elsewhere")
    job = await task.options(deadline=60, queue="unserved").aenqueue()
    async with shop.working() as worker:
        assert await worker.services.expire() is None
        assert (await job.astatus()).state == "ready"
        await shop.pass_time(60, worker)
        await worker.services.expire()
        record = await job.astatus()
        assert (record.state, record.reason) == ("expired", "deadline")


def test_the_timekeeper_survives_a_call_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    keeper = DeadlineTimer(clock)
    called = threading.Event()

    def broken() -> None:
        raise Broken

    keeper.after(1, broken)
    keeper.after(1, called.set)
    clock.advance(1)
    assert keeper.run_once() is None
    # Its own thread may have been faster to take them.
    assert called.wait(SOON)
    keeper.close()
    assert "the others continue" in caplog.text


def test_deadlines_that_are_forgotten_are_not_kept_and_do_not_pile_up() -> None:
    clock = ManualClock()
    keeper = DeadlineTimer(clock)
    called: list[int] = []
    for n in range(5_000):
        deadline = keeper.after(3_600, lambda n=n: called.append(n))
        if n % 100:
            keeper.forget(deadline)
            keeper.forget(deadline)
    assert len(keeper._heap) < 2_500
    clock.advance(3_600)
    keeper.run_once()
    keeper.close()
    assert called == list(range(0, 5_000, 100))


@live
async def test_a_finished_job_leaves_no_deadline_behind(small_shop: Shop) -> None:
    app = small_shop.app

    @app.task(timeout=3600)
    async def quick() -> None: ...

    async with small_shop.working() as worker:
        for job in await app.aenqueue_many([quick.job() for _ in range(20)]):
            await job.await_(SOON)
        await small_shop.until(job, lambda _: not worker.runner.runs)
        assert [entry for entry in worker.deadlines._heap if entry[2].call is not None and entry[0] > 3600] == []
