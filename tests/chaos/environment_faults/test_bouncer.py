"""Everything through PgBouncer in transaction mode: no statement and no lock may depend on whose session it meets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests.acceptance.conftest import url_of
from tests.chaos.dials import SEED, Figure, scaled
from tests.chaos.environment_faults.bouncer import bouncer
from tests.chaos.environment_faults.crew import Crew, crew
from tests.chaos.environment_faults.tasks import producer
from tests.patience import SOON
from tests.postgres_server import PostgresServer, private_server

pytestmark = [pytest.mark.extended, pytest.mark.proof]
# As documented for a PgBouncer before 1.21, such as Debian's.
PLAIN = {"HOLDFAST_PREPARE": "false", "HOLDFAST_NOTIFY": "false", "HOLDFAST_POLL": "0.2"}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with private_server() as it:
        yield it


@pytest.fixture(scope="module")
def pooled(server: PostgresServer) -> Iterator[str]:
    with bouncer(server) as dsn:
        yield url_of(dsn)


@pytest.mark.timeout(0)
def test_jobs_flows_and_steps_survive_kills_behind_a_pool(pooled: str, tmp_path: Path, figure: Figure) -> None:
    dice = random.Random(SEED)
    with producer(pooled, prepare=False, notify=False) as app, crew(pooled, tmp_path, **PLAIN) as workers:
        app.migrate()
        for _ in range(3):
            workers.start()
        kills = scaled(5)
        for n in range(kills):
            enqueue_all_kinds(app, workers)
            if n == 0:
                workers.wait(lambda: bool(workers.seen("E")), "they work")
            workers.kill(dice.randrange(3))
        workers.wait_for_all(app, 120)
        assert workers.leave(app) == [0, 0, 0]
        facts = workers.require(app)
        assert {job.state for job in facts.jobs.values()} == {"succeeded"}
    figure(len(facts.jobs), "jobs through PgBouncer")
    figure(kills, "kills behind PgBouncer")


@pytest.mark.timeout(400)
def test_a_direct_address_for_listen_wakes_workers_behind_a_pool(
    server: PostgresServer, pooled: str, tmp_path: Path
) -> None:
    direct = url_of(server.dsn)
    variables = {"HOLDFAST_PREPARE": "false", "HOLDFAST_POLL": "60", "HOLDFAST_LISTEN_DSN": direct}
    with producer(pooled, prepare=False, listen_dsn=direct) as app, crew(pooled, tmp_path, **variables) as workers:
        app.migrate()
        workers.start()
        workers.wait(lambda: workers.says("serves default") == 1, "it waits for work")
        # It was woken, rather than having looked by itself.
        assert app.tasks["entry"].enqueue(0).wait(SOON) == "succeeded"


@pytest.mark.timeout(400)
def test_listening_through_the_pool_does_no_harm(pooled: str, tmp_path: Path) -> None:
    with producer(pooled, prepare=False) as app, crew(pooled, tmp_path, HOLDFAST_PREPARE="false") as workers:
        app.migrate()
        for _ in range(2):
            workers.start()
        for _ in range(4):
            enqueue_all_kinds(app, workers)
        workers.wait_for_all(app)
        assert workers.leave(app) == [0, 0]
        workers.require(app)


def enqueue_all_kinds(app: holdfast.App, workers: Crew) -> None:
    for _ in range(10):
        workers.enqueue(app.tasks["entry"], 0.02)
    workers.enqueue(app.tasks["in_steps"], 5)
    entry = app.tasks["entry"]
    with app.flow("diamond") as flow:
        first = flow.add(entry.job(0.01), name="first")
        middle = [flow.add(entry.job(0.01), name=f"m{n}", after=[first]) for n in range(2)]
        flow.add(entry.job(0.01), name="last", after=middle)
