"""Workers that are declared dead, and those who declare it."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest

from holdfast import Context
from holdfast.clock import ManualClock
from holdfast.model.workers import WorkerSpec
from holdfast.storage.ops.jobs import claims
from holdfast.storage.ops.jobs.claims import ClaimRequest
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op
from holdfast.worker.maintenance import rescuer as rescuing
from holdfast.worker.worker import Worker
from tests.patience import SOON
from tests.postgres_server import url_of

from .worker_kit import AT_ONCE, Shop, endless, live

LEASE = 30.0


async def stranger(
    shop: Shop,
    worker: Worker,
    *,
    claims_jobs: int = 0,
    process_key: str = "",
    lease: float = LEASE,
    name: str = "stranger",
) -> str:
    """Another worker, which registers, perhaps claims, and is never heard of again."""
    spec = WorkerSpec(
        id=name, name="elsewhere:1", host="elsewhere", pid=1, process_key=process_key, queues=("default",),
        tasks=(), concurrency=1, version="0", lease=round(lease * 1e6),
    )  # fmt: skip
    await shop.store.awrite(Op(lambda tx: workers.register(tx, spec)))
    if claims_jobs:
        request = ClaimRequest(owner=spec.id, token="t", routes=worker.routes.encoded, n=claims_jobs)
        assert len(await shop.store.awrite(Op(lambda tx: claims.claim(tx, request)))) == claims_jobs
    return spec.id


# -- declared dead


@live
async def test_a_worker_declared_dead_goes_on_under_a_new_identity_and_its_late_outcomes_change_nothing(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop.app
    begun, go = asyncio.Event(), asyncio.Event()
    runs: list[int] = []

    @app.task(retry=AT_ONCE)
    async def slow(ctx: Context) -> str:
        runs.append(ctx.attempt)
        if ctx.attempt > 1:
            return "second"
        begun.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            return "first"
        return "first"

    async with shop.working() as worker:
        old = worker.id
        job = await slow.aenqueue()
        await begun.wait()
        assert await asyncio.to_thread(app.workers.rescue, old) == 1
        # Unless it was woken first, and has heard of it by itself.
        await shop.beat(worker)
        assert await job.aresult(SOON) == "second"
        assert worker.id != old
        assert [w.id for w in await asyncio.to_thread(app.workers.list)] == [worker.id]
        await shop.until(job, lambda _: not worker.outcomes.pending)
        assert await shop.beat(worker)
    record = await job.astatus()
    assert (record.state, record.attempts) == ("succeeded", 2)
    assert runs == [1, 2]
    assert "continuing under a new identity" in caplog.text
    assert app.workers.list() == []


@live
async def test_a_worker_that_hears_twice_that_it_was_declared_dead_goes_on_under_one_new_identity(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    task, begun = endless(shop)
    async with shop.working() as worker:
        await task.aenqueue()
        await begun.get()
        shop.alter("update holdfast_worker set state = 'dead'")
        # As after a freeze: the fence is decided first, and the heartbeat has ended by the time that it is heard of.
        worker.lease.fence("no renewal")
        worker.lease.heartbeat.run_once()
        # What was born before the second word came must not be left behind: it would keep a lease that nobody ends.
        while not await asyncio.to_thread(_is_the_only_one, shop, worker):
            await asyncio.sleep(0.01)
        assert caplog.text.count("continuing under a new identity") == 1


def _is_the_only_one(shop: Shop, worker: Worker) -> bool:
    beating = [thread.name for thread in threading.enumerate()].count("holdfast-heartbeat")
    return beating == 1 and [known.id for known in shop.app.workers.list() if known.state == "alive"] == [worker.id]


@live
async def test_a_claim_that_races_the_rescue_of_its_worker_takes_nothing(shop: Shop) -> None:
    app = shop.app

    @app.task
    async def note() -> str:
        return "ran"

    async with shop.working() as worker:
        worker.state.closing = True
        await shop.until(await note.aenqueue(), lambda r: r.state == "ready")
        old, is_buried = worker.id, asyncio.Event()

        async def bury() -> None:
            await asyncio.to_thread(app.workers.rescue, old)
            is_buried.set()

        shop.store.before = bury
        worker.state.closing = False
        worker.outcomes.request_claim()
        job = await note.aenqueue()
        await is_buried.wait()
        assert (await job.astatus()).state == "ready"
        await shop.beat(worker)
        assert await job.aresult(SOON) == "ran"


# -- rescuing others


@live
async def test_a_silent_worker_is_rescued_only_after_a_lease_of_steady_renewals(shop: Shop) -> None:
    task, begun = endless(shop)
    async with shop.working() as worker:
        worker.state.closing = True
        job = await task.aenqueue()
        await stranger(shop, worker, claims_jobs=1, lease=60)
        shop.clock.advance(20)
        # A hiccup of our own: only from here on our word about others counts.
        shop.store.down = True
        assert not await shop.beat(worker)
        shop.store.down = False
        for _ in range(5):
            assert await shop.beat(worker)
            shop.clock.advance(9.9)
            await worker.services.rescuer.run_once()
        # Its lease of 60 s ran out at 60; we are steady for only 49.5.
        assert (await job.astatus()).state == "running"
        for _ in range(2):
            assert await shop.beat(worker)
            shop.clock.advance(9.9)
        await worker.services.rescuer.run_once()
        record = await job.astatus()
        assert (record.state, record.reason, record.attempts) == ("ready", "rescue", 1)
        assert (record.suspect, record.crashes) == (0, 0)
        assert [w.id for w in await asyncio.to_thread(shop.app.workers.list)] == [worker.id]
        worker.state.closing = False
        worker.outcomes.request_claim()
        assert await begun.get()


@live
async def test_a_rescuer_looks_again_when_the_lease_of_a_silent_worker_ends(shop: Shop) -> None:
    async with shop.working(rescue_interval=10) as worker:
        await stranger(shop, worker, lease=30)
        assert await worker.services.rescuer.run_once() is None
        for _ in range(3):
            shop.clock.advance(8)
            assert await shop.beat(worker)
        rest = await worker.services.rescuer.run_once()
        assert rest == pytest.approx(6, abs=0.1)


@live
async def test_a_step_of_the_clock_makes_nobody_dead(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    task, _ = endless(shop)
    async with shop.working() as worker:
        worker.state.closing = True
        job = await task.aenqueue()
        for _ in range(4):
            assert await shop.beat(worker)
            shop.clock.advance(9)
        await stranger(shop, worker, claims_jobs=1)
        assert await shop.beat(worker)
        shop.clock.step(3600)
        assert await shop.beat(worker)
        await worker.services.rescuer.run_once()
        assert (await job.astatus()).state == "running"
        assert "the clock stepped by 3600.0 s" in caplog.text
        for _ in range(4):
            shop.clock.advance(9)
            assert await shop.beat(worker)
        await worker.services.rescuer.run_once()
        assert (await job.astatus()).state == "ready"


@live
async def test_a_step_of_the_clock_makes_nobody_dead_before_the_next_beat(shop: Shop) -> None:
    task, _ = endless(shop)
    async with shop.working() as worker:
        worker.state.closing = True
        job = await task.aenqueue()
        for _ in range(4):
            assert await shop.beat(worker)
            await worker.services.rescuer.run_once()
            shop.clock.advance(9)
        await stranger(shop, worker, claims_jobs=1)
        assert await shop.beat(worker)
        shop.clock.step(3600)
        # Nobody has beaten since: its lease is over by the clock, and we have been steady for longer than that.
        await worker.services.rescuer.run_once()
        assert (await job.astatus()).state == "running"
        for _ in range(5):
            shop.clock.advance(9)
            assert await shop.beat(worker)
        await worker.services.rescuer.run_once()
        assert (await job.astatus()).state == "ready"


@live
async def test_a_clock_that_is_set_back_makes_nobody_dead_who_renews(shop: Shop) -> None:
    task, _ = endless(shop)
    async with shop.working() as worker:
        worker.state.closing = True
        job = await task.aenqueue()
        other = await stranger(shop, worker, claims_jobs=1)
        for _ in range(5):
            assert await shop.beat(worker)
            await shop.store.awrite(Op(lambda tx: workers.beat(tx, other)))
            await worker.services.rescuer.run_once()
            shop.clock.advance(9)
        shop.clock.step(-3600)
        for _ in range(5):
            # Its lease ends later than any could, until it renews it.
            await worker.services.rescuer.run_once()
            assert (await job.astatus()).state == "running"
            assert await shop.beat(worker)
            await shop.store.awrite(Op(lambda tx: workers.beat(tx, other)))
            shop.clock.advance(9)


@live
async def test_who_died_before_the_clock_was_set_back_is_rescued_after_a_lease(shop: Shop) -> None:
    task, _ = endless(shop)
    async with shop.working() as worker:
        worker.state.closing = True
        job = await task.aenqueue()
        await stranger(shop, worker, claims_jobs=1)
        assert await shop.beat(worker)
        await worker.services.rescuer.run_once()
        shop.clock.step(-3600)
        for _ in range(4):
            assert await shop.beat(worker)
            await worker.services.rescuer.run_once()
            assert (await job.astatus()).state == "running"
            shop.clock.advance(9)
        assert await shop.beat(worker)
        await worker.services.rescuer.run_once()
        assert (await job.astatus()).state == "ready"


@live
async def test_a_worker_whose_process_is_certainly_gone_is_rescued_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, begun = endless(shop)
    async with shop.working() as worker:
        worker.state.closing = True
        job = await task.aenqueue()
        await stranger(shop, worker, claims_jobs=1, process_key="that one")
        await worker.services.rescuer.run_once()
        assert (await job.astatus()).state == "running"
        monkeypatch.setattr(rescuing, "is_gone", lambda key: key == "that one")
        await worker.services.rescuer.run_once()
        assert (await job.astatus()).state == "ready"
        worker.state.closing = False
        worker.outcomes.request_claim()
        await begun.get()


@live
async def test_rescuing_a_job_whose_cancel_was_requested_cancels_it(shop: Shop) -> None:
    task, _ = endless(shop)
    async with shop.working() as worker:
        worker.state.closing = True
        job = await task.aenqueue()
        dead = await stranger(shop, worker, claims_jobs=1)
        await job.acancel()
        await asyncio.to_thread(shop.app.workers.rescue, dead)
        assert (await job.astatus()).state == "cancelled"


@live
async def test_a_claim_that_never_ends_keeps_nobody_from_the_rescue_of_others(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(url_of(postgres_dsn), ManualClock())
    monkeypatch.setattr(rescuing, "is_gone", lambda key: key == "gone")
    task, _ = endless(shop)
    async with shop.working() as worker, await psycopg.AsyncConnection.connect(postgres_dsn) as frozen:
        worker.state.closing = True
        # Due a little later: a claim of this worker may still be under way.
        job = await task.options(delay=1).aenqueue()
        await stranger(shop, worker, process_key="gone")
        # Registered before the other, and frozen in the middle of a claim.
        await frozen.execute("select 1 from holdfast_worker where id = 'stranger' for key share")
        shop.clock.advance(1)
        await stranger(shop, worker, claims_jobs=1, process_key="gone", name="another")
        await worker.services.rescuer.run_once()
        assert (await job.astatus()).state == "ready"
        assert "stranger" in {known.id for known in await asyncio.to_thread(shop.app.workers.list)}
        await frozen.rollback()
        await worker.services.rescuer.run_once()
        assert [known.id for known in await asyncio.to_thread(shop.app.workers.list)] == [worker.id]
    shop.app.close()


@live
async def test_one_worker_that_cannot_be_rescued_does_not_hold_up_the_others(
    small_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with small_shop.working() as worker:
        await stranger(small_shop, worker, process_key="gone")
        tried: list[str] = []

        async def rescue_all(store: object, worker_id: str, **_: object) -> int:
            tried.append(worker_id)
            if len(tried) == 1:
                raise RuntimeError("corrupt")
            return 0

        second = small_shop.worker()
        await second.start()
        monkeypatch.setattr(rescuing, "is_gone", lambda key: True)
        monkeypatch.setattr(rescuing, "rescue_all", rescue_all)
        with pytest.raises(RuntimeError, match="corrupt"):
            await worker.services.rescuer.run_once()
        assert set(tried) == {"stranger", second.id}
        await second.stop()
