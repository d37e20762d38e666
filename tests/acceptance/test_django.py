"""Handlers that use Django's ORM survive a restart of its database, as Django's own views do."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

import holdfast
from tests.acceptance.conftest import url_of
from tests.acceptance.fleet import LONG_LEASE, fleet
from tests.postgres_server import private_server

pytestmark = pytest.mark.thorough

WAYS = ("on_thread", "in_process", "on_loop", "in_a_step")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("keeps_connections", [False, True], ids=["closes each time", "keeps connections"])
def test_jobs_succeed_after_a_restart_of_the_database_of_their_orm(tmp_path: Path, keeps_connections: bool) -> None:
    with private_server() as server, fleet(url_of(server.dsn), tmp_path, lease=LONG_LEASE) as workers:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("create table notes (id bigserial primary key, text text not null)")
        workers.environment |= {"DJANGO_DSN": server.dsn, "DJANGO_KEEPS": "1" if keeps_connections else ""}
        app = holdfast.App(url_of(server.dsn))
        app.migrate()
        workers.workers.append(
            workers.run_python("-m", "holdfast", "worker", "tests.acceptance.django_jobs:app", "--concurrency", "1")
        )
        for restart in (False, True):
            if restart:
                server.stop()
                server.start()
            for way in WAYS:
                job = app.external_task(way).options(max_attempts=1).enqueue(text=way)
                assert job.wait(60) == "succeeded", workers.log.read_text()[-4000:]
        assert workers.stop_all() == [0]
        app.close()
