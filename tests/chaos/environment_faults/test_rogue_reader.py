"""Somebody reads for very long: what is kept for them is told of, work goes on, and it is cleaned up after."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import holdfast
from tests.acceptance.conftest import url_of
from tests.acceptance.fleet import until
from tests.chaos.dials import Figure, scaled
from tests.chaos.environment_faults.crew import Crew, crew
from tests.chaos.environment_faults.tasks import producer

pytestmark = pytest.mark.thorough

MIB = 1024 * 1024
PADDING = "x" * 200_000


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_a_reader_that_stays_makes_the_log_of_sqlite_grow_and_is_named_and_then_it_is_used_again(
    tmp_path: Path, figure: Figure
) -> None:
    store, log = str(tmp_path / "jobs.db"), tmp_path / "jobs.db-wal"
    with producer(store) as app, crew(store, tmp_path) as workers:
        app.migrate()
        workers.start("--concurrency", "4")
        with closing(sqlite3.connect(store, isolation_level=None)) as reader:
            reader.execute("begin")
            before = reader.execute("select count(*) from holdfast_job").fetchone()
            while log.stat().st_size < 80 * MIB:
                enqueue_and_wait(app, workers, 20)
            workers.wait(lambda: warned(workers, app), "somebody says that a reader keeps the log")
            assert reader.execute("select count(*) from holdfast_job").fetchone() == before, "it sees its snapshot"
            grown = log.stat().st_size
            enqueue_and_wait(app, workers, 20)
        # The log begins anew once all of it was moved, and is cut to its limit then.
        until(lambda: log_is_used_again(app, workers, log), 120, "the log is cut", workers.log)
        assert workers.stop_all() == [0]
        workers.require(app)
    figure(grown // MIB, "MiB of log with a long-running reader")


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_claims_go_on_behind_an_old_transaction_of_postgres_and_it_is_told_of(
    postgres_dsn: str, tmp_path: Path, figure: Figure
) -> None:
    store = url_of(postgres_dsn)
    with producer(store) as app, crew(store, tmp_path) as workers:
        workers.start()
        with psycopg.connect(postgres_dsn) as reader:
            reader.execute("begin isolation level repeatable read")
            reader.execute("select count(*) from holdfast_job")
            for _ in range(scaled(3)):
                enqueue_and_wait(app, workers, 200, "")
            assert (app.stats.store().oldest_transaction or 0) > 0.5
            reader.rollback()
        with psycopg.connect(postgres_dsn, autocommit=True) as keeper:
            keeper.execute("vacuum holdfast_live")
        assert (app.stats.store().oldest_transaction or 0) < 60
        assert workers.stop_all() == [0]
        facts = workers.require(app)
    figure(len(facts.jobs), "jobs with an old open transaction")


def enqueue_and_wait(app: holdfast.App, workers: Crew, count: int, padding: str = PADDING) -> None:
    for _ in range(count):
        workers.enqueue(app.tasks["entry"], 0, padding)
    workers.wait_for_all(app)


def warned(workers: Crew, app: holdfast.App) -> bool:
    enqueue_and_wait(app, workers, 2)
    return workers.says("a reader keeps an old snapshot open") > 0


def log_is_used_again(app: holdfast.App, workers: Crew, log: Path) -> bool:
    enqueue_and_wait(app, workers, 2)
    return log.stat().st_size <= 64 * MIB
