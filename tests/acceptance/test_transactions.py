"""Work enqueued in the caller's own transaction: nothing before the commit, at once after it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import holdfast
from tests.acceptance.fleet import Fleet, ids_of, until
from tests.patience import SOON

TRIALS = 20


@contextmanager
def own_connection(app: holdfast.App, store_url: str) -> Iterator[Any]:
    connection = psycopg.connect(store_url) if store_url.startswith("postgresql") else app.connect()
    try:
        yield connection
    finally:
        connection.close()


@pytest.mark.timeout(180)
def test_a_rolled_back_enqueue_leaves_nothing_and_wakes_nobody(
    app: holdfast.App, store_url: str, workers: Fleet
) -> None:
    task = app.tasks["entry"]
    first = task.enqueue(0)
    workers.start()
    first.wait(30)
    with own_connection(app, store_url) as connection:
        connection.execute("begin")
        ghost = task.options(connection=connection).enqueue(0)
        connection.rollback()
    after = task.enqueue(0)
    after.wait(30)
    assert ids_of(workers.lines(), "S") == {first.id, after.id}
    assert ghost.id not in {record.id for record in app.jobs.find()}


@pytest.mark.timeout(180)
def test_a_committed_enqueue_starts_within_fifty_milliseconds(
    app: holdfast.App, store_url: str, workers: Fleet
) -> None:
    task = app.tasks["entry"]
    workers.start()
    task.enqueue(0).wait(30)
    waits = []
    with own_connection(app, store_url) as connection:
        for _ in range(TRIALS):
            connection.execute("begin")
            job = task.options(connection=connection).enqueue(0)
            connection.commit()
            committed_at = time.time()
            job.wait(30)
            until(lambda id=job.id: id in ids_of(workers.lines(), "S"), SOON, "it started")  # type: ignore[misc]
            waits.append(next(line.at for line in workers.lines() if line.job == job.id) - committed_at)
    # A busy machine keeps some of them. Whoever polled, once in two seconds, would be late for most.
    assert sorted(waits)[TRIALS // 4] < 0.05, waits
