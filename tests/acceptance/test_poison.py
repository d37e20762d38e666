"""One job that takes its process down is convicted; its neighbours are not."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.model.workers import WorkerInfo
from tests.acceptance.fleet import Fleet, until

pytestmark = pytest.mark.thorough


@pytest.mark.timeout(400)
@pytest.mark.parametrize("how", ["exit", "segfault", "oom"])
def test_a_poison_job_fails_after_three_crashes_and_its_neighbours_succeed(
    app: holdfast.App, workers: Fleet, how: str
) -> None:
    workers.start("--queues", "poison", "--concurrency", "100", "--processes", "2")
    until(lambda: len(_alive(app)) == 2, 60, "both workers are up", workers.log)
    before = {worker.id for worker in _alive(app)}
    half = [app.tasks["neighbour"].job(0.1) for _ in range(100)]
    handles = app.enqueue_many([*half, app.tasks["poison"].job(how), *half])
    culprit = handles.pop(100)
    until(lambda: before - {w.id for w in app.workers.list()} != set(), 60, "a worker fell", workers.log)
    # After the shortest pause, not the longest of half a minute.
    until(lambda: len(_alive(app)) == 2, 25, "the workers are back", workers.log)
    until(lambda: culprit.state == "failed", 90, "the culprit is convicted", workers.log)
    assert culprit.status().reason == "worker_lost"
    assert culprit.status().crashes == 3
    # Two workers fell with it, and then nothing but its own process.
    outcomes = [attempt.outcome for attempt in app.jobs.attempts(culprit.id)]
    assert outcomes == ["lost", "lost", "crashed", "crashed", "worker_lost"]
    until(lambda: all(h.state == "succeeded" for h in handles), 90, "neighbours succeed", workers.log)
    assert workers.stop_all() == [0]


def _alive(app: holdfast.App) -> list[WorkerInfo]:
    return [w for w in app.workers.list() if w.state == "alive"]
