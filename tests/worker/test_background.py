"""The parts of a worker: one that dies is noticed, and what must succeed is tried until it does."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import SchemaMismatch
from holdfast.runtime import running
from holdfast.runtime.running import EXIT_BROKEN
from holdfast.worker import lease
from holdfast.worker.lease import until_done
from holdfast.worker.worker import BackgroundTasks

from .worker_kit import Shop, live


async def dies() -> None:
    raise LookupError("nobody expected this")


@live
async def test_an_errand_that_ends_or_is_cancelled_breaks_nothing() -> None:
    sent = BackgroundTasks()
    ends, stays = sent.send(asyncio.sleep(0), asyncio.sleep(3600))
    await ends
    sent.cancel()
    await sent.until_over()
    assert stays.cancelled()
    assert sent.error is None


@live
async def test_an_errand_that_dies_is_told_of_at_once(caplog: pytest.LogCaptureFixture) -> None:
    told = asyncio.Event()
    sent = BackgroundTasks(told.set)
    sent.send(dies())
    await told.wait()
    assert isinstance(sent.error, LookupError)
    assert "nobody expected this" in caplog.text


@live
async def test_what_fails_is_tried_until_it_succeeds_but_not_against_a_schema_that_is_not_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease, "_PAUSE_AFTER_ERROR", 0.0)
    faults = [RuntimeError("can't start new thread"), LookupError("odd"), None, SchemaMismatch("too new")]

    async def work() -> None:
        if (fault := faults.pop(0)) is not None:
            raise fault

    await until_done(work)
    assert len(faults) == 1
    with pytest.raises(SchemaMismatch):
        await until_done(work)


@live
async def test_a_process_whose_worker_is_broken_stops_it_and_ends_with_a_code_that_says_so(
    small_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_CHECK_EVERY", 0.01)
    worker = small_shop.worker()
    worker.background.send(dies())
    assert await running._work(worker, asyncio.Event(), None) == EXIT_BROKEN
    assert worker.lease.heartbeat.is_stopped
    assert await asyncio.to_thread(small_shop.app.workers.list) == []


@live
@pytest.mark.parametrize("part", ["claimer", "relays", "poller"])
async def test_no_part_of_a_worker_dies_unnoticed(small_shop: Shop, part: str) -> None:
    broken = asyncio.Event()
    worker = small_shop.worker(on_broken=broken.set)
    getattr(worker, part).run = lambda *_: dies()
    await worker.start()
    await broken.wait()
    await worker.stop(grace=0)
