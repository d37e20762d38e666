"""Workers that rest while there is no work."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from holdfast import App
from holdfast.clock import SECOND
from holdfast.errors import ConfigError
from holdfast.model.values import micros_of
from holdfast.runtime.workers import worker_of
from holdfast.storage.ops.workers.rest import check_rest
from holdfast.storage.port import Op
from holdfast.tasks.resources import ResourceHost
from holdfast.worker.resting import RestingWorker
from holdfast.worker.settings import WorkerSettings
from holdfast.worker.worker import Worker
from tests.patience import SOON
from tests.postgres_server import url_of

from .worker_kit import QUIET, Shop, live


@asynccontextmanager
async def resting(
    shop: Shop, idle: float = 600.0, longest_rest: float = 600.0, **loops: float
) -> AsyncIterator[RestingWorker]:
    """A worker that rests after a moment without work."""
    settings = WorkerSettings(**{**QUIET, "idle": idle, **loops})
    worker = worker_of(shop.app, shop.store, settings)  # type: ignore[arg-type]
    assert isinstance(worker, RestingWorker)
    worker._settle, worker._longest_rest = 0.2, longest_rest
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop(grace=0)


async def asleep(worker: RestingWorker) -> None:
    await asyncio.wait_for(worker.resting.wait(), SOON)


@pytest.fixture
def app(real_shop: Shop) -> App:
    @real_shop.app.task
    async def double(number: int) -> int:
        return 2 * number

    return real_shop.app


@live
async def test_a_worker_without_work_deregisters_and_a_job_wakes_it(real_shop: Shop, app: App) -> None:
    async with resting(real_shop) as worker:
        assert [one.id for one in await app.workers.alist()] == [worker.id]
        await asleep(worker)
        assert await app.workers.alist() == []
        assert (worker.condition().is_alive, worker.condition().is_ready) == (True, True)
        before = worker.id
        job = await app.tasks["double"].aenqueue(4)
        assert await job.aresult(timeout=SOON) == 8
        assert (worker.id, worker.resting.is_set()) == (before, False)
        await asleep(worker)


@live
async def test_a_job_whose_wake_up_is_lost_starts_after_the_idle_seconds(real_shop: Shop, app: App) -> None:
    async with resting(real_shop, idle=1.0) as worker:
        await asleep(worker)
        assert worker._listener is not None
        worker._listener.close()
        job = await app.tasks["double"].aenqueue(4)
        assert await job.aresult(timeout=SOON) == 8


@live
async def test_a_delayed_job_wakes_the_worker_in_time(real_shop: Shop, app: App) -> None:
    job = await app.tasks["double"].options(delay=12).aenqueue(4)
    due = time.monotonic() + 12
    async with resting(real_shop) as worker:
        await asleep(worker)
        # Its wake-up must not shorten the rest, and needs no worker.
        assert await job.aresult(timeout=SOON) == 8
        assert -0.5 < time.monotonic() - due < 1.5


@live
async def test_a_schedule_wakes_the_worker_in_time(real_shop: Shop, app: App) -> None:
    schedule = await app.schedules.acreate("often", app.tasks["double"], every=14, kwargs={"number": 1})
    async with resting(real_shop, lead_interval=3.0, schedule_interval=5.0) as worker:
        await asleep(worker)
        while not (jobs := await app.jobs.afind()):
            await asyncio.sleep(0.05)
        await app.job(jobs[0].id).await_(SOON)
        started = (await app.job(jobs[0].id).astatus()).started_at
        assert started is not None
        assert schedule.next_tick is not None
        assert 0 <= started - micros_of(schedule.next_tick) < 1.5 * SECOND


@live
async def test_a_running_job_keeps_every_worker_awake(real_shop: Shop, app: App) -> None:
    async with real_shop.working() as other:
        running = asyncio.Event()

        @app.task
        async def long() -> None:
            running.set()
            await asyncio.Event().wait()

        del other
        await long.aenqueue()
        await running.wait()
        async with resting(real_shop) as worker:
            checked = worker.checks
            while worker.checks < checked + 2:
                await asyncio.sleep(0.02)
            assert not worker.resting.is_set()


@live
async def test_a_round_is_worked_after_the_longest_rest(real_shop: Shop, app: App) -> None:
    async with resting(real_shop, longest_rest=0.3) as worker:
        for _ in range(2):
            await asleep(worker)
            while worker.resting.is_set():
                await asyncio.sleep(0.01)


class Model:
    """What a worker opens once."""


@live
async def test_resources_stay_open_while_a_worker_rests(real_shop: Shop) -> None:
    app, moves = real_shop.app, list[str]()

    @app.resource(scope="worker")
    def load() -> Iterator[Model]:
        moves.append("opened")
        yield Model()
        moves.append("closed")

    @app.task
    async def use(model: Model) -> bool:
        return isinstance(model, Model)

    async with resting(real_shop) as worker:
        for _ in range(2):
            assert await (await use.aenqueue()).aresult(timeout=SOON)
            await asleep(worker)
        assert moves == ["opened"]
    assert moves == ["opened", "closed"]


@live
async def test_a_worker_that_rests_can_be_stopped_and_says_when_its_store_is_away(real_shop: Shop, app: App) -> None:
    async with resting(real_shop, idle=1.0) as worker:
        await asleep(worker)
        real_shop.store.down = True
        while worker.condition().is_ready:
            await asyncio.sleep(0.02)
        assert worker.condition().is_alive
        real_shop.store.down = False
        while not worker.condition().is_ready:
            await asyncio.sleep(0.02)
    assert not worker.condition().is_ready


def test_paused_queues_do_not_keep_a_worker_awake_and_jobs_behind_limits_do(real_shop: Shop, app: App) -> None:
    store, double = app.open(), app.tasks["double"]

    def has_work(*queues: str) -> bool:
        return store.read(Op(lambda tx: check_rest(tx, queues))).has_work

    assert not has_work("default")
    double.enqueue(1)
    assert has_work("default")
    assert not has_work("mail")
    app.queues.pause("default")
    assert not has_work("default")


@live
async def test_a_worker_at_rest_makes_one_statement_in_its_idle_seconds(postgres_dsn: str, pg_shop: Shop) -> None:
    log = Path(conninfo_to_dict(postgres_dsn)["host"]) / "log"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("alter database {} set log_statement = 'all'").format(
            sql.Identifier(connection.info.dbname)))  # fmt: skip

    def statements() -> int:
        return len(re.findall(rb"LOG:  (?:statement|execute [^:]*): ", log.read_bytes()))

    pg_shop.app.task(_nothing)
    async with resting(pg_shop, idle=1.0) as worker:
        await asleep(worker)
        while worker.checks < 4:
            await asyncio.sleep(0.01)
        before, checks, began = statements(), worker.checks, time.monotonic()
        assert before > 0
        while worker.checks < checks + 6:
            await asyncio.sleep(0.01)
        made, took = worker.checks - checks, time.monotonic() - began
        # The statement of the last check may not be in the log yet.
        assert made - 1 <= statements() - before <= made + 1
        assert made / took <= 1


def _nothing() -> None: ...


@pytest.fixture
def pg_shop(postgres_dsn: str) -> Iterator[Shop]:
    shop = Shop(url_of(postgres_dsn), None)
    yield shop
    shop.app.close()


@pytest.mark.parametrize("idle", [-1.0, 0.5, 4_000.0])
def test_idle_seconds_that_make_no_sense_are_refused(idle: float) -> None:
    with pytest.raises(ConfigError, match="idle must be 0, or between 1 s and"):
        WorkerSettings(idle=idle)


@live
async def test_a_worker_that_cannot_start_after_a_rest_is_tried_again(
    real_shop: Shop, app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.resting._PAUSE_AFTER_ERROR", 0.05)
    async with resting(real_shop) as worker:
        await asleep(worker)
        make, failures = worker._make, [RuntimeError("the disk is gone")]

        def fail_once(identity: str | None, resources: ResourceHost | None) -> Worker:
            if failures:
                raise failures.pop()
            return make(identity, resources)

        worker._make = fail_once
        job = await app.tasks["double"].aenqueue(4)
        assert await job.aresult(timeout=SOON) == 8
        assert (worker.error, "the disk is gone" in caplog.text) == (None, True)
