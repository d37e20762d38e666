"""Batches in real worker processes that are killed in the middle of them."""

from __future__ import annotations

import signal

import pytest

import holdfast
from tests.acceptance.fleet import Fleet, ids_of, until

pytestmark = pytest.mark.thorough

JOBS = 2_000


@pytest.mark.timeout(300)
def test_no_job_of_a_batch_is_lost_when_its_worker_is_killed(app: holdfast.App, workers: Fleet) -> None:
    for _ in range(2):
        workers.start("--queues", "batches", "--concurrency", "2")
    task = app.tasks["entries"]
    jobs = app.enqueue_many([task.job(0.05) for _ in range(JOBS)])
    for index in (0, 1, 0):
        before = len(ids_of(workers.lines(), "E"))
        until(lambda before=before: len(ids_of(workers.lines(), "E")) > before, 60, "batches end", workers.log)  # type: ignore[misc]
        workers.kill(index, "--queues", "batches", "--concurrency", "2")
    until(lambda: all(job.state == "succeeded" for job in jobs), 120, "all succeed", workers.log)
    # The one that was started last may get the signal before it handles signals.
    assert set(workers.stop_all()) <= {0, -signal.SIGTERM}
    assert ids_of(workers.lines(), "E") == {job.id for job in jobs}
    # What was recorded was not run again; only the batches under way at a kill were.
    begun = [line for line in workers.lines() if line.mark == "S"]
    assert len(begun) <= JOBS + 3 * 2 * 50
