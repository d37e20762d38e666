"""A file in which a bit was lost: text that is no UTF-8 fails its own job, and no other."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import holdfast
from holdfast.model import JobFilter
from tests.patience import SOON

NO_TEXT = "cast(x'7b226e223a22ff227d' as text)"


@pytest.fixture
def damaged(tmp_path: Path) -> holdfast.App:
    """Ten jobs, of which the fourth has lost a bit."""
    app = holdfast.App(str(tmp_path / "jobs.db"), durable=False)

    @app.task(max_attempts=1)
    async def count(n: str) -> str:
        return n

    jobs = app.enqueue_many([count.options(tags=["t"]).job(str(n)) for n in range(10)])
    connection = sqlite3.connect(app.config.store)
    with connection:
        connection.execute(f"update holdfast_job set payload = {NO_TEXT} where id = ?", (jobs[3].id,))
    connection.close()
    return app


def test_a_payload_that_is_no_text_fails_its_own_job_alone(damaged: holdfast.App) -> None:
    damaged.drain()
    found = damaged.jobs.find()[::-1]
    assert [job.state for job in found if job.state != "succeeded"] == ["failed"]
    assert found[3].reason == "undecodable"
    damaged.close()


def test_what_is_no_text_can_be_looked_at_and_others_beside_it(damaged: holdfast.App) -> None:
    assert len(damaged.jobs.find(JobFilter(tag="t"))) == 10
    garbled = damaged.jobs.find()[::-1][3]
    assert garbled.payload == '{"n":"\x1a"}'
    assert damaged.jobs.cancel(garbled.id) == "cancelled"
    damaged.close()


def test_a_worker_runs_the_others(damaged: holdfast.App) -> None:
    with damaged.worker(concurrency=4):
        for job in damaged.jobs.find()[::-1]:
            damaged.jobs.wait(job.id, SOON)
    assert sorted(str(job.state) for job in damaged.jobs.find()) == ["failed", *["succeeded"] * 9]
    damaged.close()
