"""How often and when a job is run again."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Context, Park, Snooze, SyncContext
from holdfast.rules.failure import Failure, FailureClass
from holdfast.rules.retry import RetryPolicy, fixed
from tests.patience import SOON

from . import isolated_tasks
from .worker_kit import AT_ONCE, Shop, live


@live
async def test_a_snoozing_job_may_run_more_often_than_its_attempts(shop: Shop) -> None:
    app = shop.app
    attempts: list[int] = []

    @app.task(max_attempts=1)
    async def patient(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) < 4:
            raise Snooze(5)

    async with shop.working() as worker:
        job = await patient.aenqueue()
        for _ in range(3):
            await shop.until(job, lambda r: r.state == "ready" and r.not_before > shop.clock.now())
            await shop.pass_time(5, worker)
        assert await job.await_(SOON) == "succeeded"
    assert attempts == [1, 1, 1, 1]


@live
async def test_a_job_runs_as_often_as_its_retry_policy_says(shop: Shop) -> None:
    @shop.app.task(retry=fixed(10, attempts=2, jitter="none"))
    async def fails() -> None:
        raise ValueError("no")

    async with shop.working() as worker:
        job = await fails.aenqueue()
        record = await shop.until_again(job, "retry")
        assert (record.max_attempts, record.not_before) == (2, shop.clock.now() + 10_000_000)
        await shop.pass_time(10, worker)
        record = await shop.until_ended(job)
    assert (record.reason, record.attempts) == ("exhausted", 2)


@live
async def test_a_failing_job_is_retried_after_its_backoff_and_then_given_up(shop: Shop) -> None:
    app = shop.app
    policy = RetryPolicy(kind="exponential", initial=10, factor=3, jitter="additive", spread=0.2)
    runs: list[int] = []

    @app.task(max_attempts=3, retry=policy)
    async def fails() -> None:
        runs.append(shop.clock.now())
        raise ValueError("no")

    async with shop.working() as worker:
        job = await fails.aenqueue()
        # 10 s and 30 s, each with half of its 20 % jitter.
        for wait in (11.0, 33.0):
            record = await shop.until_again(job, "retry")
            assert record.not_before == shop.clock.now() + round(wait * 1e6)
            await shop.pass_time(wait, worker)
            await shop.until(job, lambda r, n=record.attempts: r.attempts > n)
        record = await shop.until_ended(job)
    assert (record.state, record.reason, record.attempts) == ("failed", "exhausted", 3)
    assert [a.outcome for a in await app.jobs.aattempts(job.id)] == ["failed", "failed", "exhausted"]
    assert [at - runs[0] for at in runs] == [0, 11_000_000, 44_000_000]


@live
async def test_a_retry_on_the_manual_clock_succeeds_where_the_handler_does(shop: Shop) -> None:
    app = shop.app

    @app.task(max_attempts=2, retry=RetryPolicy(kind="fixed", initial=30, jitter="none"))
    def second_time(ctx: SyncContext) -> int:
        if ctx.attempt < 2:
            raise ConnectionError("not yet")
        return ctx.attempt

    async with shop.working() as worker:
        job = await second_time.aenqueue()
        await shop.until_again(job, "retry")
        await shop.pass_time(30, worker)
        assert await job.aresult(SOON) == 2
    record = await job.astatus()
    assert (record.attempts, record.state) == (2, "succeeded")


@live
async def test_a_job_past_its_age_limit_is_given_up_with_attempts_left(shop: Shop) -> None:
    app = shop.app

    @app.task(max_attempts=10, retry=RetryPolicy(kind="fixed", initial=30, jitter="none", max_age=50))
    async def fails() -> None:
        raise ValueError("no")

    async with shop.working() as worker:
        job = await fails.aenqueue()
        await shop.until_again(job, "retry")
        await shop.pass_time(30, worker)
        record = await shop.until_ended(job)
    assert (record.state, record.reason, record.attempts) == ("failed", "aged_out", 2)


@live
async def test_exceptions_named_permanent_are_not_retried(small_shop: Shop) -> None:
    app = small_shop.borrow(isolated_tasks.app)

    class Hopeless(LookupError):
        pass

    @app.task(retry=AT_ONCE, no_retry_on=(LookupError,))
    async def here() -> None:
        raise Hopeless("never")

    @app.task(retry=AT_ONCE, no_retry_on=(LookupError,))
    def on_thread() -> None:
        raise KeyError("never")

    async with small_shop.working():
        for task in (here, on_thread):
            record = await small_shop.until_ended(await task.aenqueue())
            assert (record.state, record.reason, record.attempts) == ("failed", "permanent", 1)


@live
async def test_a_reason_to_park_that_is_no_text_is_stored_as_what_is_left_of_it(shop: Shop) -> None:
    @shop.app.task
    async def parks() -> None:
        raise Park("odd", reason="half a pair: \udcff")

    async with shop.working():
        job = await parks.aenqueue()
        record = await shop.until(job, lambda record: record.state == "blocked")
    assert record.reason == "half a pair: ?"


@live
async def test_an_outcome_that_the_store_refuses_fails_its_job_and_spares_its_neighbours(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = shop.app
    refused = Failure(FailureClass.AUTH_BLOCKED, "{}", reason="half a pair: \udcff")
    monkeypatch.setattr("holdfast.worker.running.outcome.classify", lambda *_: refused)

    @app.task
    async def parks() -> None:
        raise Park("odd")

    @app.task
    async def neighbour(n: int) -> int:
        return n

    jobs: list[Any] = await app.aenqueue_many([parks.job(), *(neighbour.job(n) for n in range(5))])
    async with shop.working():
        assert [await job.aresult(SOON) for job in jobs[1:]] == list(range(5))
        record = await shop.until_ended(jobs[0])
    assert (record.state, record.reason) == ("failed", "unrecordable")
    assert "cannot be stored" in caplog.text


@live
async def test_a_handler_that_cancels_itself_is_retried_like_any_failure(small_shop: Shop) -> None:
    app = small_shop.app
    runs: list[int] = []

    @app.task(max_attempts=2, retry=AT_ONCE)
    async def cancels_itself(ctx: Context) -> str:
        import asyncio

        runs.append(ctx.attempt)
        if ctx.attempt == 1:
            raise asyncio.CancelledError
        return "done"

    async with small_shop.working():
        assert await (await cancels_itself.aenqueue()).aresult(SOON) == "done"
    assert runs == [1, 2]
