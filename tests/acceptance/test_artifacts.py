"""Workers that are killed while they store large artifacts: every job has all of its own, and nothing else is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.config import load
from holdfast.runtime.database import Database
from holdfast.storage.port import Op
from holdfast.storage.statements import Statement
from holdfast.worker.maintenance.artifact_gc import ArtifactCollector
from tests.acceptance import artifact_jobs
from tests.acceptance.artifact_jobs import content
from tests.acceptance.fleet import Fleet, until

pytestmark = pytest.mark.thorough

WORKER = (
    "-m",
    "holdfast",
    "worker",
    "tests.acceptance.artifact_jobs:app",
    "--queues",
    "artifacts",
    "--concurrency",
    "4",
)


@pytest.fixture
def app(store_url: str) -> Iterator[holdfast.App]:
    app = holdfast.App(store_url)
    for task in artifact_jobs.app.tasks.values():
        app._keep(task)
    app.migrate()
    yield app
    app.close()


@pytest.mark.timeout(300)
def test_artifacts_survive_the_kill_of_their_worker(app: holdfast.App, workers: Fleet, store_url: str) -> None:
    _survive(app, workers, store_url, jobs=12, kills=1)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_artifacts_survive_many_kills(app: holdfast.App, workers: Fleet, store_url: str) -> None:
    _survive(app, workers, store_url, jobs=150, kills=12)


def _survive(app: holdfast.App, workers: Fleet, store_url: str, *, jobs: int, kills: int) -> None:
    dice = random.Random(7)
    tasks = list(app.tasks.values())
    made = {job.id: n for n in range(jobs) for job in [app.enqueue(tasks[n % 2].job(n))]}
    workers.workers = [workers.run_python(*WORKER) for _ in range(2)]
    for _ in range(kills):
        left = _unfinished(app)
        # Seen in the middle of it, or after it.
        until(lambda left=left: _writes(app) > 0 or _unfinished(app) < left, 60, "something is written", workers.log)
        signal.sigtimedwait([], dice.uniform(0.0, 0.05))
        _replace(workers, dice.randrange(2))
    until(lambda: _unfinished(app) == 0, 120 + jobs, "every job has ended", workers.log)
    workers.stop_all()
    for job_id, seed in made.items():
        found = {artifact.name: artifact.size for artifact in app.artifacts.list(job_id)}
        assert found.keys() == {"completion", "small", "large"}
        assert app.artifacts.read(job_id, "large") == content(seed)
        assert app.artifacts.read(job_id, "small") == f"of {seed}".encode()
    _sweep(app)
    assert _bytes_of(app, store_url) == jobs
    with Database(load({"store": store_url})) as database:
        assert [finding.rule for finding in database.verify() if finding.broken_by] == []


def _replace(workers: Fleet, index: int) -> None:
    killed: subprocess.Popen[bytes] = workers.workers[index]
    killed.kill()
    killed.wait()
    workers.workers[index] = workers.run_python(*WORKER)


def _ask(app: holdfast.App, text: str) -> int:
    statement = Statement("test", text, text)
    rows = app.open().write(Op(lambda tx: tx.all(statement)))
    return int(rows[0][0]) if rows else 0


def _writes(app: holdfast.App) -> int:
    return _ask(app, "select count(*) from holdfast_blob where state = 'writing'")


def _unfinished(app: holdfast.App) -> int:
    return _ask(app, "select count(*) from holdfast_any_job where finished_at is null")


def _sweep(app: holdfast.App) -> None:
    _ask(app, "update holdfast_blob set at = at - 100000000 where state = 'writing'")
    asyncio.run(ArtifactCollector(app.open(), lambda: True).run_once())
    assert _ask(app, "select count(*) from holdfast_blob where state <> 'kept'") == 0


def _bytes_of(app: holdfast.App, store_url: str) -> int:
    """How many blobs there are bytes of."""
    if app.open().backend == "postgres":
        return _ask(app, "select count(distinct blob) from holdfast_blob_part")
    return len(os.listdir(Path(f"{store_url}-artifacts")))
