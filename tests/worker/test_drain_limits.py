"""A drain goes on while anything due can still run, whatever limits hold jobs back meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdfast
from holdfast.runtime.draining import Drained

JOBS = 10


@pytest.fixture
def clock() -> holdfast.clock.ManualClock:
    return holdfast.clock.ManualClock()


@pytest.fixture
def app(place: str, clock: holdfast.clock.ManualClock) -> Iterator[holdfast.App]:
    app = holdfast.App(place, clock=clock)
    app.migrate()
    yield app
    app.close()


@pytest.fixture(params=["drain", "adrain"])
def drain(request: pytest.FixtureRequest, app: holdfast.App) -> Callable[..., Drained]:
    if request.param == "drain":
        return app.drain
    return lambda **options: asyncio.run(app.adrain(**options))


class Crowd:
    """Counts how many run at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def work(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1


def test_all_jobs_of_a_limited_task_are_drained(app: holdfast.App, drain: Callable[..., Drained]) -> None:
    crowd = Crowd()

    @app.task(concurrency=2)
    async def limited() -> None:
        await crowd.work()

    @app.task(concurrency=2)
    def limited_def() -> None: ...

    for _ in range(JOBS):
        limited.enqueue()
        limited_def.enqueue()
    assert drain(concurrency=10) == Drained(succeeded=2 * JOBS)
    assert crowd.most <= 2


def _of_a_queue(app: holdfast.App) -> dict[str, Any]:
    app.limits.set_concurrency(2, queue="default")
    return {}


def _of_a_queue_in_all(app: holdfast.App) -> dict[str, Any]:
    app.limits.set_total("default", 2)
    return {}


def _of_a_key(app: holdfast.App) -> dict[str, Any]:
    return {"concurrency_key": "one", "concurrency": 2}


def _of_a_budget(app: holdfast.App) -> dict[str, Any]:
    app.budgets.set("team", {"tokens": 20})
    return {"reserve": {"team": {"tokens": 10}}}


def _of_a_quota(app: holdfast.App) -> dict[str, Any]:
    app.quotas.set("calls", limit=100, window=60, concurrency=2)
    return {"quota": "calls"}


@pytest.mark.parametrize("limit", [_of_a_queue, _of_a_queue_in_all, _of_a_key, _of_a_budget, _of_a_quota])
def test_all_jobs_under_a_limit_are_drained(
    app: holdfast.App, drain: Callable[..., Drained], limit: Callable[[holdfast.App], dict[str, Any]]
) -> None:
    crowd = Crowd()

    @app.task
    async def work() -> None:
        await crowd.work()

    options = limit(app)
    for _ in range(JOBS):
        work.options(**options).enqueue()
    done = drain(concurrency=10)
    assert done.succeeded == JOBS, done
    assert crowd.most <= 2


def test_a_breaker_on_trial_lets_all_follow_the_job_that_succeeds(
    app: holdfast.App, drain: Callable[..., Drained], clock: holdfast.clock.ManualClock
) -> None:
    breaker = app.breaker("shop", failures=1, open_for=30)

    @app.task(breaker=breaker)
    def order() -> None: ...

    app.drain()
    app.breakers.trip("shop", 30)
    for _ in range(JOBS):
        order.enqueue()
    assert drain(concurrency=10).runs == 0
    clock.advance(30)
    assert drain(concurrency=10) == Drained(succeeded=JOBS)


def test_a_rate_lets_as_many_run_as_there_are_tokens_now(
    app: holdfast.App, drain: Callable[..., Drained], clock: holdfast.clock.ManualClock
) -> None:
    app.limits.set_rate("mail", capacity=3, per_second=1)

    @app.task(rate="mail")
    def send() -> None: ...

    for _ in range(JOBS):
        send.enqueue()
    assert drain(concurrency=10) == Drained(succeeded=3)
    clock.advance(2)
    assert drain(concurrency=10) == Drained(succeeded=2)


def test_a_drain_of_what_is_due_now_counts_jobs_that_were_held_back_once(
    app: holdfast.App, drain: Callable[..., Drained]
) -> None:
    @app.task(concurrency=2)
    def limited(again: bool = True) -> None:
        if again:
            limited.enqueue(False)

    for _ in range(JOBS):
        limited.enqueue()
    assert drain(concurrency=10, until_empty=False).succeeded == JOBS
