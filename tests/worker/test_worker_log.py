"""What a worker says about the runs that end, and about a store that fails."""

from __future__ import annotations

import asyncio
import logging

import pytest

from holdfast import Context, Fail, RetryPolicy, Snooze
from holdfast.errors import StorageUnavailable
from holdfast.storage.outage import Outage
from tests.patience import SOON

from .worker_kit import Shop, live


def said(caplog: pytest.LogCaptureFixture, name: str = "holdfast.jobs") -> list[str]:
    return [f"{r.levelname} {r.getMessage()}" for r in caplog.records if r.name == name]


@live
async def test_each_run_that_ends_is_one_line(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "holdfast")

    @shop.app.task
    async def works(ctx: Context) -> None:
        shop.clock.advance(0.25)

    job = await works.aenqueue()
    shop.clock.advance(2)
    async with shop.working():
        assert await job.await_(SOON) == "succeeded"
    assert said(caplog) == [f"INFO job {job.id} (works) succeeded in 0.250 s, waited 2.000 s"]


@live
async def test_a_failure_says_when_it_is_retried_and_which_attempt_it_was(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")

    @shop.app.task(max_attempts=2, retry=RetryPolicy(kind="fixed", initial=2, jitter="none"))
    def fails() -> None:
        raise ValueError("no such mailbox")

    async with shop.working() as worker:
        job = await fails.aenqueue()
        await shop.until_again(job, "retry")
        await shop.pass_time(2, worker)
        assert await job.await_(SOON) == "failed"
    first, last = said(caplog)
    assert first.startswith(f"WARNING job {job.id} (fails) failed in ")
    assert first.endswith(": ValueError: no such mailbox; retrying in 2 s (1 of 2)")
    assert last.endswith(": ValueError: no such mailbox (exhausted, 2 of 2)")
    assert all(record.exc_info for record in caplog.records if record.name == "holdfast.jobs")


@live
async def test_what_a_handler_puts_off_on_purpose_is_no_warning_and_a_failure_for_good_is_one(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")

    @shop.app.task
    async def snoozes() -> None:
        raise Snooze(60)

    @shop.app.task
    async def gives_up() -> None:
        raise Fail("no use")

    async with shop.working():
        later, never = await snoozes.aenqueue(), await gives_up.aenqueue()
        assert await never.await_(SOON) == "failed"
        await shop.until(later, lambda r: r.reason == "snooze")
    failed, snoozed = sorted(said(caplog), reverse=True)
    assert snoozed.startswith("INFO") and snoozed.endswith("; again in 60 s (snooze)")
    assert failed.startswith("WARNING") and failed.endswith(": Fail: no use (permanent, 1 of 5)")


@live
async def test_a_bad_result_and_arguments_that_do_not_fit_are_warned_of(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.app.task
    def lies() -> int:
        return "x"  # type: ignore[return-value]

    @shop.app.task
    def takes(n: int) -> None: ...

    bad, other = await lies.aenqueue(), await takes.aenqueue(1)
    shop.alter("update holdfast_job set payload = ? where id = ?", "{}", other.id)
    async with shop.working():
        await bad.await_(SOON)
        await other.await_(SOON)
    told = said(caplog)
    assert any(f"WARNING job {bad.id} (lies) failed for good" in line and "bad_result" in line for line in told)
    assert any(f"WARNING job {other.id} (takes) failed for good" in line and "undecodable" in line for line in told)


@live
async def test_nothing_is_formatted_below_the_level_that_is_wanted(
    small_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast")

    @small_shop.app.task
    async def works() -> None: ...

    async with small_shop.working():
        assert await (await works.aenqueue()).await_(SOON) == "succeeded"
    assert said(caplog) == []


@live
async def test_a_worker_that_starts_leads_and_stops_in_order_says_nothing_bad(
    real_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    begun = asyncio.Event()

    @real_shop.app.task
    async def runs() -> None:
        begun.set()
        await asyncio.sleep(SOON)

    worker = real_shop.worker(lead_interval=0.01)
    await worker.start()
    await runs.aenqueue()
    await begun.wait()
    await worker.stop(grace=0)
    assert {r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR} == set()
    assert not [r for r in caplog.records if "leads" in r.getMessage()]


@live
async def test_an_outage_is_two_lines_for_all_parts_together(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    go = asyncio.Event()

    @shop.app.task
    async def waits() -> None:
        await go.wait()

    async with shop.working(expire_interval=0.01, wake_interval=0.01) as worker:
        job = await waits.aenqueue()
        await shop.until(job, lambda r: r.state == "running")
        shop.store.down = True
        await asyncio.to_thread(worker.lease.heartbeat.run_once)
        await worker.poller.look()
        go.set()
        while shop.store.outage._failures < 10:
            await asyncio.sleep(0.01)
        shop.store.down = False
        assert await job.await_(SOON) == "succeeded"
    lines = [line for line in said(caplog, "holdfast.worker") if "worker" not in line]
    assert [line.split(" (")[0] for line in lines[:1]] == ["WARNING the store cannot be used"]
    assert [line.split(" after")[0] for line in lines[1:]] == ["WARNING the store is back"]


def test_a_failure_right_after_an_outage_begins_no_new_one(caplog: pytest.LogCaptureFixture) -> None:
    outage, error = Outage(), StorageUnavailable("gone")
    for _ in range(3):
        assert outage.covers("a claim", error)
        outage.passed()
    assert len(caplog.messages) == 2
    assert not outage.covers("a claim", ValueError("a bug"))
