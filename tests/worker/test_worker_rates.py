"""Rates by key, as a task declares them."""

from __future__ import annotations

import asyncio
import logging

import pytest

from holdfast import App
from holdfast.errors import InvalidInput
from tests.patience import SOON

from .worker_kit import Shop, live


@live
async def test_a_key_of_a_rate_waits_for_its_own_tokens_and_is_explained(shop: Shop) -> None:
    app = shop.app

    @app.task(rate=app.rate("customer", per_second=1))
    async def notify(customer: int) -> int:
        return customer

    mine = [await notify.options(rate_key="7").aenqueue(n) for n in range(2)]
    theirs = await notify.options(rate_key="8").aenqueue(8)
    assert (await app.adrain()).succeeded == 2
    assert await theirs.aresult(0) == 8
    assert "customer[7]" in str(await app.jobs.aexplain(mine[1].id))
    (rate,) = (await app.limits.ashow()).rates
    assert (rate.scope, rate.capacity, rate.keys) == ("customer", 1, 2)
    shop.clock.advance(1)
    assert (await app.adrain()).succeeded == 1
    assert await mine[1].aresult(0) == 1


@live
async def test_a_worker_wakes_when_a_key_has_its_next_token(real_shop: Shop) -> None:
    app = real_shop.app

    @app.task(rate=app.rate("customer", per_second=20))
    async def notify() -> None: ...

    jobs = [await notify.options(rate_key="7").aenqueue() for _ in range(25)]
    worker = real_shop.worker(declarations=app.declarations(), poll=0.2)
    await worker.start()
    try:
        await asyncio.gather(*(job.await_(SOON) for job in jobs))
    finally:
        await worker.stop(grace=0)


def test_a_key_without_a_rate_is_refused() -> None:
    app = App(":memory:")

    @app.task
    async def work() -> None: ...

    with pytest.raises(InvalidInput, match="rate_key needs a rate"):
        work.options(rate_key="7").enqueue()


@live
async def test_a_rate_or_breaker_that_nobody_declared_is_warned_of(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop.app

    @app.task(breaker="strpie", rate=app.rate("smtp", per_second=9))
    async def pay() -> None: ...

    @app.task(rate="10/s", breaker=app.breaker("stripe"))
    async def fine() -> None: ...

    job = await pay.aenqueue()
    keyed = await fine.options(rate="stmp", rate_key="[7]").aenqueue()
    known = await pay.options(breaker=None, rate_key="7").aenqueue()
    worker = shop.worker(declarations=app.declarations())
    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        await worker.start()
        try:
            await known.await_(SOON)
            await worker.services.undeclared.check_tasks()
            at_start = [line for line in caplog.messages if "that name it" in line]
            caplog.clear()
            async with asyncio.timeout(SOON):
                while len(await app.limits.aundeclared()) < 2:
                    await asyncio.sleep(0)
            await worker.services.unpark()
            await worker.services.unpark()
        finally:
            await worker.stop(grace=0)
    assert set(at_start) == {
        "the breaker 'strpie' is not declared, so jobs of pay that name it will wait for ever; correct the name, "
        "declare it with app.breaker('strpie'), or run: holdfast breakers set strpie"
    }
    assert sorted(caplog.messages) == sorted(
        [
            f"job {job.id} of task pay, and others like it, wait for the breaker 'strpie', which is not declared; "
            "correct the name, declare it with app.breaker('strpie'), or run: holdfast breakers set strpie",
            f"job {keyed.id} of task fine, and others like it, wait for the rate 'stmp', which is not declared; "
            "correct the name, declare it with app.rate('stmp', per_second=…), or run: holdfast limits rate stmp …",
        ]
    )
