"""Workers are killed and frozen again and again; every acknowledged job ends once, and the ledger agrees."""

from __future__ import annotations

import random
import signal
from collections import Counter, defaultdict

import pytest

import holdfast
from holdfast.model.job import JobRecord
from tests.acceptance.fleet import Fleet, until
from tests.chaos.check import require

JOBS = 5_000
KILLS = 50
STOPS = 20
LEASE = 2.0


@pytest.mark.timeout(400)
def test_five_thousand_jobs_survive_fifty_kills_and_twenty_freezes(app: holdfast.App, workers: Fleet) -> None:
    dice = random.Random(7)
    options = ("--queues", "default,threads", "--concurrency", "10")
    for _ in range(4):
        workers.start(*options)
    acknowledged = Nemesis(app, workers, dice, options).rage()
    until(lambda: _unfinished(app) == 0, 120, "every job has ended", workers.log)
    workers.stop_all()
    records = {job_id: app.jobs.get(job_id) for job_id in acknowledged}
    assert Counter(record.state for record in records.values()) == {"succeeded": JOBS}
    require(workers.facts(app, acknowledged), drained=True)
    _check_ledger(app, workers, records)


class Nemesis:
    """Kills one worker, freezes another past its lease, and enqueues in between."""

    def __init__(self, app: holdfast.App, workers: Fleet, dice: random.Random, options: tuple[str, ...]) -> None:
        self._app = app
        self._workers = workers
        self._dice = dice
        self._options = options
        self._acknowledged: list[str] = []
        self._kills = 0

    def rage(self) -> list[str]:
        rounds = STOPS // 2
        for _ in range(rounds):
            self._freeze_two(kills=KILLS // rounds, jobs=JOBS // rounds)
        while self._kills < KILLS:
            self._kill(self._dice.randrange(4))
        self._enqueue(JOBS - len(self._acknowledged))
        return self._acknowledged

    def _freeze_two(self, kills: int, jobs: int) -> None:
        until(lambda: len(self._alive()) >= 2, 30, "workers are back", self._workers.log)
        frozen = self._dice.sample(range(4), 2)
        awake = [index for index in range(4) if index not in frozen]
        for index in frozen:
            self._workers.workers[index].send_signal(signal.SIGSTOP)
        try:
            for _ in range(kills):
                self._starts(1.2 * LEASE / kills)
                self._kill(self._dice.choice(awake))
                self._enqueue(jobs // kills)
        except holdfast.StorageBusy:
            # A process frozen inside its transaction keeps SQLite's lock; what was not acknowledged comes later.
            self._starts(LEASE)
        for index in frozen:
            self._workers.workers[index].send_signal(signal.SIGCONT)

    def _kill(self, index: int) -> None:
        self._workers.kill(index, *self._options)
        self._kills += 1

    def _alive(self) -> list[object]:
        return [w for w in self._app.workers.list() if w.state == "alive" and not w.is_expired]

    def _starts(self, seconds: float) -> None:
        """Let the others work for a while: until time is over, whatever they do."""
        signal.sigtimedwait([], seconds)

    def _enqueue(self, n: int) -> None:
        tasks = (self._app.tasks["entry"], self._app.tasks["entry_on_thread"])
        requests = [self._dice.choice(tasks).job(self._dice.uniform(0.001, 0.03)) for _ in range(n)]
        self._acknowledged += [job.id for job in self._app.enqueue_many(requests)]


def _unfinished(app: holdfast.App) -> int:
    return sum(count.jobs for count in app.jobs.counts() if count.label in ("ready", "delayed", "running"))


def _check_ledger(app: holdfast.App, workers: Fleet, records: dict[str, JobRecord]) -> None:
    starts: defaultdict[str, list[int]] = defaultdict(list)
    for line in workers.lines():
        if line.mark == "S":
            starts[line.job].append(line.epoch)
    for job_id, record in records.items():
        lost = app.jobs.attempts(job_id)
        # Each claim and each end of ownership is one epoch: nothing was recorded beside them, or twice.
        assert record.epoch == 2 * (len(lost) + 1), (record, lost)
        assert record.result == f'"{job_id}:{record.finished_epoch}"'
        assert len(set(starts[job_id])) == len(starts[job_id]) <= len(lost) + 1, "one handler per claim"
