"""A process forks with its app open: parent and child go on, each with connections of its own; nothing is harmed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import url_of
from tests.chaos.dials import Figure, scaled
from tests.chaos.environment_faults.crew import Crew, crew
from tests.chaos.environment_faults.tasks import producer

pytestmark = pytest.mark.thorough


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "jobs.db")
    return url_of(request.getfixturevalue("postgres_dsn"))


@pytest.mark.parametrize("how", ["fork", "pool"])
def test_parent_and_children_use_the_same_app(store: str, how: str, tmp_path: Path) -> None:
    with crew(store, tmp_path) as workers:
        run_program(workers, how, 3)
        require_all(workers, store)


@pytest.mark.proof
@pytest.mark.timeout(0)
@pytest.mark.parametrize("how", ["fork", "pool"])
def test_many_forks_beside_a_worker_harm_nobody(store: str, how: str, tmp_path: Path, figure: Figure) -> None:
    count = scaled(12)
    with crew(store, tmp_path) as workers:
        workers.start()
        run_program(workers, how, count)
        with producer(store) as app:
            workers.wait_for_all(app)
        assert workers.stop_all() == [0]
        require_all(workers, store)
    figure(count, "forks with an open store" if how == "fork" else "jobs enqueued by a forked pool")


def run_program(workers: Crew, how: str, count: int) -> None:
    program = workers.run_python("-m", "tests.chaos.environment_faults.forking", how, str(count))
    assert program.wait(240 + 4 * count) == 0, workers.log.read_text()[-4000:]


def require_all(workers: Crew, store: str) -> None:
    with producer(store) as app:
        facts = workers.require(app, drained=bool(workers.workers))
        assert set(facts.jobs) == workers.seen("Q")
    if not store.startswith("postgresql"):
        with closing(sqlite3.connect(store)) as connection:
            assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
