"""What a worker says while the store is away: that it is, and that it is back."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import holdfast
from tests.acceptance.conftest import url_of
from tests.acceptance.fleet import LONG_LEASE, fleet, until
from tests.postgres_server import private_server

pytestmark = pytest.mark.thorough

OUTAGE = 6.0
HANDFUL = 6


@pytest.mark.timeout(400)
def test_an_outage_of_postgres_under_twenty_running_jobs_writes_a_handful_of_lines(tmp_path: Path) -> None:
    release = tmp_path / "release"
    with private_server() as server, fleet(url_of(server.dsn), tmp_path, lease=LONG_LEASE) as workers:
        app = holdfast.App(url_of(server.dsn))
        app.migrate()
        workers.workers.append(workers.run_python("-m", "holdfast", "worker", "tests.acceptance.outage_jobs:app"))
        jobs = [
            app.external_task(task).enqueue(release=str(release))
            for task, count in (("waits", 8), ("says", 6), ("steps", 6))
            for _ in range(count)
        ]
        until(lambda: all(job.status().state == "running" for job in jobs), 60, "all run", workers.log)
        before = len(workers.log.read_text())
        server.stop()
        time.sleep(OUTAGE)
        server.start()
        until(lambda: "the store is back" in workers.log.read_text(), 60, "the outage ends", workers.log)
        release.touch()
        assert [job.wait(60) for job in jobs] == ["succeeded"] * len(jobs)
        said = workers.log.read_text()[before:]
        assert workers.stop_all() == [0]
        app.close()
    lines = [line for line in said.splitlines() if not re.search(r" holdfast\.jobs: job ", line)]
    assert "Traceback" not in said, said
    assert len(lines) <= HANDFUL, said
    assert sum("the store cannot be used" in line for line in lines) == 1, said
    assert sum("the store is back" in line for line in lines) == 1, said
