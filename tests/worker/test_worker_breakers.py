"""A circuit breaker around a task: it opens, one job tries, it closes."""

from __future__ import annotations

import pytest

from holdfast import App, InvalidInput, Throttle
from tests.patience import SOON

from .worker_kit import AT_ONCE, Shop, live


@live
async def test_a_failing_destination_is_left_alone_then_tried_then_used_again(shop: Shop) -> None:
    app = shop.app
    calls: list[int] = []
    is_down = True

    @app.task(breaker=app.breaker("stripe", failures=3, open_for=30), retry=AT_ONCE, max_attempts=None)
    async def charge(n: int) -> int:
        calls.append(n)
        if is_down:
            raise ConnectionError("refused")
        return n

    for declaration in app.declarations():
        await app.open().awrite(declaration)
    async with shop.working(concurrency=1) as worker:
        jobs = await app.aenqueue_many([charge.job(n) for n in range(5)])
        await shop.until(jobs[0], lambda _: app.breakers.get("stripe").state == "open")
        await worker.poller.run_once()
        assert len(calls) == 3
        await shop.pass_time(30, worker)
        await shop.until(jobs[0], lambda _: app.breakers.get("stripe").openings == 2)
        assert len(calls) == 4
        is_down = False
        await worker.poller.run_once()
        await shop.pass_time(30, worker)
        for n, job in enumerate(jobs):
            assert await job.aresult(SOON) == n
    assert app.breakers.get("stripe").state == "closed"


@live
async def test_a_drain_stops_at_an_open_breaker_and_declares_it_first(shop: Shop) -> None:
    app = shop.app

    @app.task(breaker=app.breaker("stripe", failures=2, open_for=30), retry=AT_ONCE, max_attempts=None)
    async def charge() -> None:
        raise ConnectionError("refused")

    @app.task(rate=app.rate("smtp", capacity=5, per_second=1), breaker="stripe")
    async def refund() -> None:
        raise Throttle(after=1, cool_queue=False)

    await charge.aenqueue()
    drained = await app.adrain()
    assert drained.again == 2
    await refund.aenqueue()
    assert (await app.adrain()).runs == 0
    shop.clock.advance(30)
    assert (await app.adrain()).again == 1


@pytest.mark.parametrize(
    ("failures", "open_for"), [(0, 30), (-1, 30), (2.5, 30), (3, 0), (3, -1), (3, float("nan")), (3, float("inf"))]
)
def test_a_breaker_that_makes_no_sense_is_refused(failures: int, open_for: float) -> None:
    with pytest.raises(InvalidInput):
        App(":memory:").breaker("stripe", failures=failures, open_for=open_for)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 129, "\u202eevil"])
def test_a_breaker_has_a_name_that_can_be_shown(name: str) -> None:
    with pytest.raises(InvalidInput):
        App(":memory:").breaker(name)
    app = App(":memory:")
    task = app.declare("elsewhere")
    if name:
        with pytest.raises(InvalidInput):
            task.options(breaker=name).enqueue()
