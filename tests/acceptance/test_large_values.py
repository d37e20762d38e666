"""Steps of 20 MB whose workers are killed: recorded once, replayed, forked, and gone with their jobs."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.config import load
from holdfast.runtime.database import Database
from holdfast.storage.port import Op
from holdfast.storage.statements import Statement
from holdfast.worker.maintenance.artifact_gc import ArtifactCollector
from tests.acceptance import large_jobs
from tests.acceptance.fleet import Fleet, until
from tests.acceptance.large_jobs import RESULT

pytestmark = pytest.mark.thorough

WORKER = ("-m", "holdfast", "worker", "tests.acceptance.large_jobs:app", "--queues", "large", "--concurrency", "2")
NAMES = ["first", "second", "third"]
GIVEN = 1_000_000


@pytest.fixture
def app(store_url: str) -> Iterator[holdfast.App]:
    app = holdfast.App(store_url)
    for task in large_jobs.app.tasks.values():
        app._keep(task)
    app.migrate()
    yield app
    app.close()


@pytest.mark.timeout(300)
def test_large_values_survive_the_kill_of_their_worker(app: holdfast.App, workers: Fleet, store_url: str) -> None:
    dice = random.Random(5)
    lifts = app.tasks["lifts"]
    jobs = {app.enqueue(lifts.job(letter * GIVEN)).id: letter for letter in "abcd"}
    workers.workers = [workers.run_python(*WORKER)]
    for n in range(3):
        until(lambda n=n: len(workers.lines()) > 2 * n, 60, "a step is done", workers.log)
        # Anywhere between what a step did and the commit of its value.
        signal.sigtimedwait([], dice.uniform(0.0, 0.2))
        workers.workers[0].kill()
        workers.workers[0].wait()
        workers.workers[0] = workers.run_python(*WORKER)
    until(lambda: _unfinished(app) == 0, 120, "every job has ended", workers.log)
    _check(app, workers, jobs)
    before = len(workers.lines())
    for job_id in jobs:
        app.jobs.retry(job_id)
    until(lambda: _unfinished(app) == 0, 120, "every job has ended again", workers.log)
    assert len(workers.lines()) == before, "a replay does no recorded step again"
    forks = {app.jobs.fork(job_id, from_step="third").id: letter for job_id, letter in jobs.items()}
    for job_id in jobs:
        app.jobs.delete(job_id)
    until(lambda: _unfinished(app) == 0, 120, "every fork has ended", workers.log)
    workers.stop_all()
    assert len(workers.lines()) == before + len(forks), "a fork does only what follows its step"
    _require_results(app, forks)
    _require_sound(store_url)
    for job_id in forks:
        app.jobs.delete(job_id)
    _sweep(app, store_url)
    _require_sound(store_url)
    assert _bytes_left(app, store_url) == 0


def _check(app: holdfast.App, workers: Fleet, jobs: dict[str, str]) -> None:
    done: defaultdict[str, list[str]] = defaultdict(list)
    for line in workers.lines():
        done[line.job].append(line.mark)
    for job_id in jobs:
        assert [step.name for step in app.jobs.steps(job_id, whole=False)] == NAMES, "each is recorded once"
        assert list(dict.fromkeys(done[job_id])) == NAMES
        assert done[job_id] == sorted(done[job_id], key=NAMES.index), "what is recorded is never done again"
    _require_results(app, jobs)


def _require_results(app: holdfast.App, jobs: dict[str, str]) -> None:
    for job_id, letter in jobs.items():
        assert app.job(job_id, task="lifts").result(timeout=1) == letter * RESULT


def _require_sound(store_url: str) -> None:
    with Database(load({"store": store_url})) as database:
        assert [finding.rule for finding in database.verify() if finding.broken_by] == []


def _ask(app: holdfast.App, text: str) -> int:
    rows = app.open().write(Op(lambda tx: tx.all(Statement("test", text, text))))
    return int(rows[0][0]) if rows else 0


def _unfinished(app: holdfast.App) -> int:
    return _ask(app, "select count(*) from holdfast_any_job where finished_at is null")


def _sweep(app: holdfast.App, store_url: str) -> None:
    """As if a day had passed: files that a killed worker wrote and did not commit are removed then."""
    _ask(app, "update holdfast_migration set applied_at = 0")
    folder = Path(f"{store_url}-artifacts")
    for name in os.listdir(folder) if folder.exists() else ():
        os.utime(folder / name, (1_000_000_000, 1_000_000_000))
    asyncio.run(ArtifactCollector(app.open(), lambda: True).run_once())
    assert _ask(app, "select count(*) from holdfast_blob") == 0


def _bytes_left(app: holdfast.App, store_url: str) -> int:
    if app.open().backend == "postgres":
        return _ask(app, "select count(*) from holdfast_blob_part")
    return len(os.listdir(f"{store_url}-artifacts"))
