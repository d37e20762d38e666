"""A destination that is down, and four worker processes that call it."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

import holdfast
from tests.acceptance.fleet import Fleet, until

pytestmark = pytest.mark.thorough

OPTIONS = ("--queues", "limited", "--concurrency", "5")
PROCESSES = 4
OPEN_FOR = 1.0


@pytest.mark.timeout(400)
def test_while_a_destination_is_down_one_job_at_a_time_tries_it(app: holdfast.App, workers: Fleet) -> None:
    switch = Path(f"{workers.ledger}.down")
    switch.write_text("refused")
    app.breakers.set("out", failures=3, open_for=OPEN_FOR)
    jobs = app.enqueue_many([app.tasks["call_out"].options(breaker="out").job() for _ in range(200)])
    for _ in range(PROCESSES):
        workers.start(*OPTIONS)
    until(lambda: app.breakers.get("out").openings >= 4, 60, "three trials", workers.log)
    tries = _claims_after_opening(app, jobs, app.breakers.get("out").openings)
    # Between two trials lies the time that it is open.
    assert all(later - earlier > 0.8 * OPEN_FOR for earlier, later in pairwise(tries)), tries
    switch.unlink()
    for job in jobs:
        assert job.wait(60) == "succeeded"
    assert app.breakers.get("out").state == "closed"
    attempts = sum(app.jobs.get(job.id).attempts for job in jobs)
    assert attempts == sum(line.mark == "S" for line in workers.lines())


@pytest.mark.timeout(400)
def test_a_trial_whose_worker_is_killed_leaves_nothing_stuck(app: holdfast.App, workers: Fleet) -> None:
    switch = Path(f"{workers.ledger}.down")
    switch.write_text("hang")
    app.breakers.set("out", failures=1, open_for=OPEN_FOR)
    app.breakers.trip("out", OPEN_FOR)
    jobs = app.enqueue_many([app.tasks["call_out"].options(breaker="out").job() for _ in range(20)])
    for _ in range(2):
        workers.start(*OPTIONS)
    until(lambda: app.breakers.get("out").trial is not None, 60, "a trial", workers.log)
    until(lambda: len(workers.lines()) == 1, 60, "it has begun", workers.log)
    (trial,) = workers.lines()
    index = next(i for i, worker in enumerate(workers.workers) if worker.pid == trial.pid)
    os.kill(trial.pid, 9)
    workers.workers[index].wait()
    switch.unlink()
    for job in jobs:
        assert job.wait(60) == "succeeded"
    assert app.breakers.get("out").state == "closed"


def _claims_after_opening(app: holdfast.App, jobs: list[holdfast.Job[None]], openings: int) -> list[float]:
    """When the trials were claimed: the last claims of runs that failed, one for each opening but the first."""
    claims = sorted((run.started_at or 0) / 1e6 for job in jobs for run in app.jobs.attempts(job.id))
    return claims[-(openings - 1) :]
