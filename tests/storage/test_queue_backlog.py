"""The view holdfast_queue_backlog, which autoscalers read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

import holdfast
from tests.postgres_server import url_of

Rows = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[holdfast.App]:
    where = request.getfixturevalue("sqlite_path" if request.param == "sqlite" else "postgres_dsn")
    app = holdfast.App(str(where) if request.param == "sqlite" else url_of(where))
    app.migrate()
    for queue in ("mail", "video", "slow"):
        app.declare(f"work_{queue}", queue=queue)
    app.declare("one_at_a_time", queue="mail", concurrency=1)
    yield app
    app.close()


@pytest.fixture
def rows(app: holdfast.App) -> Rows:
    def read(columns: str) -> list[tuple[Any, ...]]:
        statement = f"select {columns} from holdfast_queue_backlog order by queue"
        if app.open().backend == "postgres":
            with psycopg.connect(app.config.store) as connection:
                return connection.execute(statement).fetchall()
        with closing(app.connect()) as connection:
            return [tuple(row) for row in connection.execute(statement)]

    return read


def test_each_queue_shows_what_is_ready_what_runs_and_the_longest_wait(app: holdfast.App, rows: Rows) -> None:
    assert rows("*") == []
    app.enqueue_many([app.tasks["work_mail"].job() for _ in range(3)])
    app.tasks["work_video"].options(delay=3600).enqueue()
    app.tasks["work_slow"].enqueue()
    app.queues.pause("slow")
    assert rows("queue, ready, running") == [("mail", 3, 0), ("slow", 0, 0), ("video", 0, 0)]
    [(mail,), (slow,), (video,)] = rows("oldest_wait")
    assert 0 <= mail < 60
    assert (slow, video) == (0, 0)
    app.queues.resume("slow")
    assert rows("queue, ready")[1] == ("slow", 1)


def test_jobs_that_run_and_jobs_behind_a_limit_are_not_ready(app: holdfast.App, rows: Rows) -> None:
    app.limits.set_concurrency(1, task="one_at_a_time")
    app.enqueue_many([app.tasks["one_at_a_time"].job() for _ in range(2)])
    worker = app.remote.register("one", ["mail"], ["one_at_a_time"], concurrency=2).worker
    assert len(app.remote.claim(worker, 2)) == 1
    assert rows("queue, ready, running, oldest_wait") == [("mail", 0, 1, 0)]
