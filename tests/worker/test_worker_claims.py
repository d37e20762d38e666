"""What a worker takes, in which order, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.storage.ops.jobs.claims import ClaimRequest
from holdfast.storage.port import Op
from tests.patience import SOON

from .worker_kit import Shop, live


@live
async def test_a_worker_never_claims_more_than_it_has_free_slots_for(shop: Shop) -> None:
    app = shop.app
    running: list[int] = []
    most: list[int] = []
    full: asyncio.Event = asyncio.Event()
    go: asyncio.Queue[None] = asyncio.Queue()

    @app.task
    async def slow(n: int) -> None:
        running.append(n)
        most.append(len(running))
        if len(running) == 3:
            full.set()
        await go.get()
        running.remove(n)

    jobs = await app.aenqueue_many([slow.job(n) for n in range(8)])
    async with shop.working(concurrency=3) as worker:
        await full.wait()
        counts = {c.state: c.jobs for c in await app.jobs.acounts()}
        assert counts == {"ready": 5, "running": 3}
        assert worker.runner.room() is None
        for _ in jobs:
            go.put_nowait(None)
        for job in jobs:
            assert await job.await_(SOON) == "succeeded"
    assert max(most) == 3


@live
async def test_queues_are_served_in_the_order_they_are_named(shop: Shop) -> None:
    app = shop.app
    order: list[str] = []

    @app.task
    async def note(queue: str, n: int) -> None:
        order.append(f"{queue}{n}")

    wanted = [(queue, n) for n in range(2) for queue in ("last", "first", "middle")]
    # A high priority does not lift a job over a queue that is preferred.
    jobs = [await note.options(queue=q, priority=9 if q == "last" else 0).aenqueue(q, n) for q, n in wanted]
    async with shop.working(concurrency=1, queues=("first", "middle", "last")):
        for job in jobs:
            await job.await_(SOON)
    assert order == ["first0", "first1", "middle0", "middle1", "last0", "last1"]


@live
async def test_within_a_queue_priority_comes_first_and_then_the_order_of_arrival(shop: Shop) -> None:
    app = shop.app
    order: list[int] = []

    @app.task
    async def note(n: int) -> None:
        order.append(n)

    jobs = []
    for n, priority in enumerate([0, 5, 0, 5, -1]):
        jobs.append(await note.options(priority=priority).aenqueue(n))
        shop.clock.advance(1)
    async with shop.working(concurrency=1):
        for job in jobs:
            await job.await_(SOON)
    assert order == [1, 3, 0, 2, 4]


@live
async def test_the_bell_wakes_an_idle_worker_at_once(real_shop: Shop) -> None:
    app = real_shop.app
    started = asyncio.Event()

    @app.task
    async def note() -> None:
        started.set()

    async with real_shop.working(poll=60, lease=600) as worker:
        # It has looked, found nothing, and waits.
        while worker.outcomes.may_have_work:
            await asyncio.sleep(0.005)
        await note.aenqueue()
        async with asyncio.timeout(SOON):
            await started.wait()
        await asyncio.to_thread(note.enqueue)


@live
async def test_a_ring_that_comes_while_a_claim_is_under_way_is_not_forgotten(shop: Shop) -> None:
    app = shop.app
    started = asyncio.Event()

    @app.task
    async def note() -> None:
        started.set()

    async with shop.working(poll=60) as worker:
        while worker.outcomes.may_have_work:
            await asyncio.sleep(0.005)

        request_claim, fed = worker.outcomes.request_claim, asyncio.Event()

        def wait_for_notice() -> None:
            request_claim()
            fed.set()

        async def enqueue_behind_its_back() -> None:
            # The claim has committed and found nothing; its reply is on the way.
            worker.outcomes.request_claim = wait_for_notice  # type: ignore[method-assign]
            await note.aenqueue()
            await fed.wait()

        shop.store.after = enqueue_behind_its_back
        request_claim()
        async with asyncio.timeout(SOON):
            await started.wait()


@live
async def test_a_delayed_job_starts_when_it_is_due(real_shop: Shop) -> None:
    app = real_shop.app
    loop = asyncio.get_running_loop()
    started: asyncio.Future[float] = loop.create_future()

    @app.task
    async def note() -> None:
        started.set_result(loop.time())

    async with real_shop.working(poll=60, lease=600):
        before = loop.time()
        await note.options(delay=0.3).aenqueue()
        async with asyncio.timeout(SOON):
            waited = await started - before
    assert waited >= 0.29


@live
async def test_a_retry_with_a_short_delay_does_not_wait_for_the_poll(real_shop: Shop) -> None:
    from holdfast import Context, Retry

    app = real_shop.app

    @app.task
    async def again(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise Retry("soon", after=0.1)
        return ctx.attempt

    async with real_shop.working(poll=60, lease=600):
        job = await again.aenqueue()
        assert await job.aresult(SOON) == 2


@live
async def test_a_full_worker_does_not_spin_while_jobs_are_overdue(real_shop: Shop, monkeypatch: Any) -> None:
    app = real_shop.app
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> None:
        begun.set()
        await go.wait()

    async with real_shop.working(concurrency=1, poll=0.5) as worker:
        await slow.aenqueue()
        await begun.wait()
        overdue = await slow.options(delay=0.01).aenqueue()
        await asyncio.sleep(0.05)
        assert await worker.poller.run_once() >= 0.3
        go.set()
        assert await overdue.await_(SOON) == "succeeded"


@live
async def test_a_paused_queue_is_not_served_until_it_is_resumed(shop: Shop) -> None:
    app = shop.app

    @app.task
    async def note() -> str:
        return "ran"

    await asyncio.to_thread(app.queues.pause, "default")
    job = await note.aenqueue()
    async with shop.working() as worker:
        await worker.poller.run_once()
        assert (await job.astatus()).state == "ready"
        await asyncio.to_thread(app.queues.resume, "default")
        assert await job.aresult(SOON) == "ran"


@live
async def test_a_claim_of_a_worker_that_stops_takes_nothing(shop: Shop) -> None:
    app = shop.app

    @app.task
    async def note() -> None: ...

    async with shop.working() as worker:
        from holdfast.storage.ops.jobs import claims
        from holdfast.storage.ops.workers import workers

        worker.state.closing = True
        job = await note.aenqueue()
        await shop.store.awrite(Op(lambda tx: workers.stop(tx, worker.id)))
        request = ClaimRequest(owner=worker.id, token="t", routes=worker.routes.encoded, n=1)
        assert await shop.store.awrite(Op(lambda tx: claims.claim(tx, request))) == []
        assert (await job.astatus()).state == "ready"


@pytest.mark.parametrize("n", [1, 700])
@live
async def test_every_job_of_a_backlog_is_run_once(shop: Shop, n: int) -> None:
    app = shop.app
    seen: list[int] = []

    @app.task
    async def note(n: int) -> None:
        seen.append(n)

    jobs = await app.aenqueue_many([note.job(i) for i in range(n)])
    async with shop.working(concurrency=50):
        for job in jobs:
            await job.await_(SOON)
    assert sorted(seen) == list(range(n))


@live
async def test_without_named_queues_all_are_served_as_one(shop: Shop) -> None:
    app, order = shop.app, []

    @app.task(queue="first")
    async def early(n: int) -> None:
        order.append(f"first {n}")

    @app.task(queue="second")
    async def late(n: int) -> None:
        order.append(f"second {n}")

    jobs = []
    for n in range(2):
        jobs.append(await early.aenqueue(n))
        jobs.append(await late.options(priority=5 if n else 0).aenqueue(n))
    async with shop.working(concurrency=1):
        for job in jobs:
            await shop.until_ended(job)
    assert order == ["second 1", "first 0", "second 0", "first 1"]
