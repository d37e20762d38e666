"""Jobs of ten steps, whose workers are killed again and again: each step is recorded once, and only the one in flight
is ever done twice."""

from __future__ import annotations

import random
import signal
from collections import Counter, defaultdict

import pytest

import holdfast
from tests.acceptance.fleet import Fleet, until
from tests.acceptance.jobs import STEPS
from tests.chaos.check import require

OPTIONS = ("--queues", "durable", "--concurrency", "10")
WORKERS = 3


@pytest.mark.timeout(300)
def test_each_step_is_recorded_once_whoever_is_killed(app: holdfast.App, workers: Fleet) -> None:
    _survive(app, workers, runs=60, kills=5)


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_a_thousand_runs_of_ten_steps_survive_random_kills(app: holdfast.App, workers: Fleet) -> None:
    _survive(app, workers, runs=1_000, kills=60)


def _survive(app: holdfast.App, workers: Fleet, *, runs: int, kills: int) -> None:
    dice = random.Random(11)
    for _ in range(WORKERS):
        workers.start(*OPTIONS)
    ids: list[str] = []
    for _ in range(kills):
        ids += _enqueue(app, dice, runs // kills)
        until(lambda: len(workers.lines()) > 5, 60, "they have begun", workers.log)
        # A moment for them to be anywhere in their work.
        signal.sigtimedwait([], dice.uniform(0.05, 0.6))
        workers.kill(dice.randrange(WORKERS), *OPTIONS)
    ids += _enqueue(app, dice, runs - len(ids))
    until(lambda: _unfinished(app) == 0, 120 + runs / 4, "every job has ended", workers.log)
    workers.stop_all()
    require(workers.facts(app, ids), drained=True)
    _check(app, workers, ids)


def _enqueue(app: holdfast.App, dice: random.Random, n: int) -> list[str]:
    tasks = (app.tasks["ten_steps"], app.tasks["ten_steps_on_thread"])
    return [job.id for job in app.enqueue_many([dice.choice(tasks).job() for _ in range(n)])]


def _unfinished(app: holdfast.App) -> int:
    return sum(count.jobs for count in app.jobs.counts() if count.state in ("ready", "delayed", "running"))


def _check(app: holdfast.App, workers: Fleet, ids: list[str]) -> None:
    done: defaultdict[str, list[str]] = defaultdict(list)
    for line in workers.lines():
        done[line.job].append(line.mark)
    names = [f"step{n}" for n in range(STEPS)]
    again = 0
    for job_id in ids:
        job = app.jobs.get(job_id)
        assert (job.state, job.result) == ("succeeded", str(sum(range(STEPS)))), job.error
        assert [step.name for step in app.jobs.steps(job_id)] == names, "each is recorded once"
        # In the ledger as in the program: what is recorded is never done again, so that none follows its successor.
        assert list(dict.fromkeys(done[job_id])) == names
        assert done[job_id] == sorted(done[job_id], key=names.index)
        extra = Counter(done[job_id]).total() - STEPS
        assert extra <= len(app.jobs.attempts(job_id)), "at most the step in flight, for each lost run"
        again += extra
    assert again < len(ids)
