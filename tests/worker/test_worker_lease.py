"""Leases, outages and lost replies: no job is lost, run by two at once, or blamed for what the store did."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Job, SyncContext
from holdfast.errors import QueueFull
from holdfast.storage.ops.jobs import claims
from holdfast.storage.ops.jobs.claims import ClaimRequest
from holdfast.storage.port import Op
from holdfast.worker import lease
from holdfast.worker.processes.identity import is_gone
from holdfast.worker.worker import Worker
from tests.patience import SOON

from . import isolated_tasks
from .worker_kit import AT_ONCE, Shop, endless, key_of, live, read_pipe

LEASE = 30.0


# -- what a beat reveals


@live
async def test_the_handler_of_a_job_that_is_no_longer_ours_is_stopped(shop: Shop, pipe: Path) -> None:
    app = shop.borrow(isolated_tasks.app)
    begun, told = asyncio.Event(), threading.Event()
    stopped = asyncio.Event()

    @app.task
    async def here() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @app.task
    def on_thread(ctx: SyncContext) -> None:
        if ctx.wait_cancelled(SOON):
            told.set()

    async with shop.working() as worker:
        jobs = [await here.aenqueue(), await on_thread.aenqueue()]
        jobs.append(await app.aenqueue(isolated_tasks.hangs.job(str(pipe))))
        await begun.wait()
        child = key_of(await read_pipe(pipe))
        shop.alter("update holdfast_live set owner = 'another', epoch = epoch + 1")
        await shop.beat(worker)
        await stopped.wait()
        assert await asyncio.to_thread(told.wait, SOON)
        await shop.until(jobs[0], lambda _: not worker.runner.runs and not worker.outcomes.pending)
        assert is_gone(child)
        assert {(r.state, r.owner) for r in [await job.astatus() for job in jobs]} == {("running", "another")}


@live
async def test_the_reply_of_a_claim_lost_at_commit_leaves_no_orphan(shop: Shop) -> None:
    app = shop.app

    @app.task(max_attempts=1)
    async def runs(n: int) -> int:
        return n

    async with shop.working():
        await shop.until_ended(await runs.aenqueue(0))
        shop.store.replies_to_lose = 1
        jobs = await app.aenqueue_many([runs.job(n) for n in (1, 2)])
        assert [await job.aresult(SOON) for job in jobs] == [1, 2]
        assert {(await job.astatus()).attempts for job in jobs} == {1}


@live
async def test_a_job_that_was_claimed_but_never_arrived_is_handed_back_at_no_cost(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop.app
    runs: list[int] = []

    @app.task(max_attempts=1)
    async def note(ctx: Context) -> str:
        runs.append(ctx.attempt)
        return "done"

    async with shop.working() as worker:
        # A claim of ours whose reply was lost, and whose rows could not be read again either.
        request = ClaimRequest(owner=worker.id, token="lost", routes=worker.routes.encoded, n=1)
        worker.state.closing = True
        job = await note.aenqueue()
        assert await shop.store.awrite(Op(lambda tx: claims.claim(tx, request)))
        worker.state.closing = False
        await shop.beat(worker)
        assert (await job.astatus()).state == "running"
        await shop.beat(worker)
        assert await job.aresult(SOON) == "done"
    record = await job.astatus()
    assert (record.attempts, record.crashes) == (1, 0)
    assert runs == [1]
    assert [a.outcome for a in await app.jobs.aattempts(job.id)] == ["released"]
    assert "never arrived" in caplog.text


@live
async def test_a_finish_repeated_after_an_unknown_outcome_is_recognised(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop.app
    begun, go = asyncio.Event(), asyncio.Event()
    runs: list[int] = []

    @app.task(max_attempts=3, retry=AT_ONCE)
    async def slow() -> str:
        runs.append(1)
        begun.set()
        await go.wait()
        return "once"

    async with shop.working() as worker:
        job = await slow.aenqueue()
        await begun.wait()
        shop.store.replies_to_lose = 1
        go.set()
        assert await job.aresult(SOON) == "once"
        # The reply was lost, so the outcome is kept and sent again.
        await shop.until(job, lambda _: not worker.outcomes.pending)
    record = await job.astatus()
    assert (record.state, record.attempts) == ("succeeded", 1)
    assert runs == [1]
    assert "the store cannot be used (OutcomeUnknown" in caplog.text
    assert "came too late" not in caplog.text


@live
async def test_the_reply_of_a_registration_lost_at_commit_does_not_keep_a_worker_from_starting(shop: Shop) -> None:
    shop.store.replies_to_lose = 1
    async with asyncio.timeout(SOON):
        async with shop.working() as worker:
            assert [w.id for w in await asyncio.to_thread(shop.app.workers.list)] == [worker.id]


# -- an outage of the store


@live
async def test_an_outage_longer_than_the_lease_convicts_no_job_and_rescues_none_that_lives(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    task, begun = endless(shop)
    done, go = asyncio.Event(), asyncio.Event()

    @shop.app.task
    async def finishes() -> str:
        done.set()
        await go.wait()
        return "in the dark"

    first, second = shop.worker(), shop.worker()
    for worker in (first, second):
        await worker.start()
    job, other = await task.aenqueue(), await finishes.aenqueue()
    before = await begun.get()
    await done.wait()

    shop.store.down = True
    go.set()
    for _ in range(5):
        await shop.pass_time_silently(LEASE / 3, first, second)
        for worker in (first, second):
            assert not await asyncio.to_thread(worker.lease.heartbeat.run_once)
    await asyncio.sleep(0)
    assert first.state.fenced
    assert second.state.fenced
    assert first.runner.room() is None

    shop.store.down = False
    # Both leases have run out in the store; neither may judge the other before a lease has passed with the store up.
    for worker in (first, second):
        await worker.services.rescuer.run_once()
    for worker in (first, second):
        assert await shop.beat(worker)
        await worker.services.rescuer.run_once()
        assert not worker.state.fenced
    assert await other.aresult(SOON) == "in the dark"
    after = await begun.get()
    record = await job.astatus()
    assert (record.state, record.attempts, record.crashes, record.suspect) == ("running", 1, 0, 0)
    assert before != after
    assert [a.outcome for a in await shop.app.jobs.aattempts(job.id)] == ["released"]
    assert {w.id for w in await asyncio.to_thread(shop.app.workers.list)} == {first.id, second.id}
    assert "every handler is stopped and its job handed back" in caplog.text
    for worker in (first, second):
        await worker.stop(grace=0)


@live
async def test_a_worker_fences_itself_before_its_lease_ends_even_if_the_store_hangs(shop: Shop, pipe: Path) -> None:
    app = shop.borrow(isolated_tasks.app)
    task, begun = endless(shop)
    async with shop.working(lease=LEASE) as worker:
        await task.aenqueue()
        isolated = await app.aenqueue(isolated_tasks.hangs.job(str(pipe)))
        await begun.get()
        child = key_of(await read_pipe(pipe))
        await shop.beat(worker)
        # Nobody beats: the timekeeper alone notices, and in time.
        await shop.pass_time_silently(LEASE * 0.8, worker)
        assert not worker.state.fenced
        worker.state.closing = True
        await shop.pass_time_silently(LEASE * 0.04, worker)
        await asyncio.sleep(0)
        assert worker.state.fenced
        await shop.until_again(isolated, "fenced")
        assert is_gone(child)
        assert not worker.runner.runs


@live
async def test_a_fenced_thread_is_given_up_before_the_lease_ends(shop: Shop) -> None:
    begun, release = threading.Event(), threading.Event()

    @shop.app.task
    def deaf() -> None:
        begun.set()
        release.wait()

    try:
        async with shop.working(lease=LEASE, cancel_grace=60) as worker:
            job = await deaf.aenqueue()
            await asyncio.to_thread(begun.wait)
            await shop.beat(worker)
            worker.state.closing = True
            await shop.pass_time_silently(LEASE * 0.84, worker)
            await asyncio.sleep(0)
            assert worker.state.fenced
            await shop.pass_time_silently(LEASE * 0.15, worker)
            await shop.until_again(job, "fenced")
            release.set()
    finally:
        release.set()


@live
@pytest.mark.parametrize("reason", ["fenced", "lost"])
async def test_a_thread_that_was_told_to_end_before_is_given_up_before_the_lease_ends_all_the_same(
    shop: Shop, reason: str
) -> None:
    begun, release = threading.Event(), threading.Event()

    @shop.app.task
    def deaf() -> None:
        begun.set()
        release.wait()

    try:
        async with shop.working(lease=LEASE, cancel_grace=60) as worker:
            job = await deaf.aenqueue()
            await asyncio.to_thread(begun.wait)
            worker.state.closing = True
            worker.runner.stop_all("shutdown")
            worker.runner.stop_all(reason)
            await shop.pass_time_silently(LEASE * 0.1, worker)
            assert worker.runner.runs
            # Told again, which gives it no more time.
            worker.runner.stop_all(reason)
            await shop.pass_time_silently(LEASE * 0.03, worker)
            await shop.until_again(job, "shutdown")
            assert not worker.runner.runs
    finally:
        release.set()


@live
async def test_a_run_whose_own_grace_ends_sooner_keeps_it_when_the_worker_is_fenced(small_shop: Shop) -> None:
    begun, release = threading.Event(), threading.Event()

    @small_shop.app.task
    def deaf() -> None:
        begun.set()
        release.wait()

    try:
        async with small_shop.working(lease=LEASE, cancel_grace=1) as worker:
            job = await deaf.aenqueue()
            await asyncio.to_thread(begun.wait)
            worker.state.closing = True
            worker.runner.stop_all("shutdown")
            worker.runner.stop_all("fenced")
            await small_shop.pass_time_silently(1.1, worker)
            await small_shop.until_again(job, "shutdown")
    finally:
        release.set()


@live
@pytest.mark.parametrize("reason", ["fenced", "lost"])
async def test_the_process_of_a_run_that_was_told_to_end_before_is_killed_at_once(
    shop: Shop, pipe: Path, reason: str
) -> None:
    app = shop.borrow(isolated_tasks.app)
    async with shop.working(lease=LEASE, cancel_grace=60) as worker:
        job = await app.aenqueue(isolated_tasks.hangs.job(str(pipe)))
        child = key_of(await read_pipe(pipe))
        worker.state.closing = True
        worker.runner.stop_all("shutdown")
        worker.runner.stop_all(reason)
        # No time passes here, so that no grace can end.
        await shop.until_again(job, "shutdown")
        assert is_gone(child)


@live
async def test_outcomes_outlive_an_outage(shop: Shop) -> None:
    app = shop.app

    @app.task
    async def adds(n: int) -> int:
        # The store is gone before the outcome is there, and comes back while that waits.
        shop.store.down = True
        return n + 1

    async with shop.working() as worker:
        job = await adds.aenqueue(2)
        while not worker.outcomes.pending:
            await asyncio.sleep(0.01)
        shop.store.down = False
        assert await job.aresult(SOON) == 3


@live
async def test_a_worker_waits_for_a_store_that_goes_down_while_it_makes_its_declarations_known(
    small_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    small_shop.store.replies_to_lose = 1
    small_shop.app.budget("team", tokens=5)
    worker = small_shop.worker(declarations=small_shop.app.declarations())
    await worker.start()
    await worker.stop()
    assert "the store cannot be used" in caplog.text
    assert (await small_shop.app.budgets.aget("team")).name == "team"


@live
async def test_a_job_whose_claim_was_answered_after_the_lease_is_not_begun(shop: Shop) -> None:
    runs: list[int] = []

    @shop.app.task
    async def note(ctx: Context) -> None:
        runs.append(ctx.job.epoch)

    async with shop.working() as worker:
        job = await claimed_before(shop, worker, note, lambda: shop.clock.advance(2 * LEASE))
        record = await shop.until_again(job, "fenced")
        assert (runs, record.attempts, record.crashes) == ([], 0, 0)
        await shop.beat(worker)
        worker.outcomes.request_claim()
        await shop.until_ended(job)
        assert runs == [3]


@live
async def test_a_job_whose_claim_was_answered_after_the_worker_was_born_again_is_not_begun(shop: Shop) -> None:
    runs: list[int] = []

    @shop.app.task
    async def note(ctx: Context) -> None:
        runs.append(ctx.job.epoch)

    async with shop.working() as worker:
        job = await claimed_before(shop, worker, note, lambda: shop.app.workers.rescue(worker.id), is_buried=True)
        await shop.until_ended(job)
        assert runs == [3]


@live
@pytest.mark.parametrize("fault", [QueueFull("too many writes wait"), LookupError("odd")])
async def test_a_worker_that_was_declared_lost_registers_anew_whatever_comes_between(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    monkeypatch.setattr(lease, "_PAUSE_AFTER_ERROR", 0.0)
    refused: list[Exception] = []

    async def refuse() -> None:
        refused.append(fault)
        raise fault

    @shop.app.task
    async def note() -> str:
        return "ran"

    async with shop.working() as worker:
        old = worker.id
        # The first answer makes sure that no turn is under way, which would take the fault upon itself.
        assert await (await note.aenqueue()).aresult(SOON) == "ran"
        while worker.outcomes.in_flight or worker.outcomes.pending:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(shop.app.workers.rescue, old)
        shop.store.before = refuse
        await shop.beat(worker)
        while worker.state.fenced:
            await asyncio.sleep(0.01)
        assert (refused, worker.id != old) == ([fault], True)
        assert await (await note.aenqueue()).aresult(SOON) == "ran"


async def claimed_before(
    shop: Shop, worker: Worker, task: Any, comes: Callable[[], object], *, is_buried: bool = False
) -> Job[Any]:
    """A job whose claim is committed, then that comes, and then the worker hears of its claim."""
    claimed, old = asyncio.Event(), worker.id

    async def happen() -> None:
        await asyncio.to_thread(comes)
        if is_buried:
            await asyncio.to_thread(worker.lease.heartbeat.run_once)
            while worker.id == old or worker.state.fenced:
                await asyncio.sleep(0.01)
        claimed.set()

    worker.state.closing = True
    job: Job[Any] = await task.aenqueue()
    while worker.outcomes.in_flight or worker.outcomes.pending:
        await asyncio.sleep(0.01)
    shop.store.after = happen
    worker.state.closing = False
    worker.outcomes.request_claim()
    await claimed.wait()
    return job


@live
async def test_a_worker_waits_for_a_store_that_is_down_at_its_start(
    small_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    small_shop.store.down = True
    worker = small_shop.worker()
    starting = asyncio.create_task(worker.start())
    while "the store cannot be used" not in caplog.text:
        await asyncio.sleep(0.01)
    # Longer than its lease, which has not begun yet.
    small_shop.clock.advance(100)
    small_shop.store.down = False
    await starting
    assert not worker.state.fenced
    assert "no renewal" not in caplog.text
    await worker.stop()
