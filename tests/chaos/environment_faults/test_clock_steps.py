"""The clock is set an hour forward and back under running workers: nobody is taken for dead, no tick comes twice."""

from __future__ import annotations

import random
import signal
from collections import Counter
from pathlib import Path

import pytest

import holdfast
from tests.acceptance.conftest import url_of
from tests.acceptance.fleet import until
from tests.chaos.dials import SEED, Figure, scaled
from tests.chaos.environment_faults.clocked import Offset, clock_of, make
from tests.chaos.environment_faults.crew import Crew, crew, unfinished

pytestmark = pytest.mark.thorough

HOUR = 3600.0
# Long enough for a busy machine to keep it: nobody may lose it here.
LEASE = 8.0


@pytest.mark.proof
@pytest.mark.timeout(0)
@pytest.mark.parametrize("where", ["the host of a SQLite file", "the host of workers", "the server"])
def test_a_step_of_the_clock_rescues_nobody_and_doubles_no_tick(
    where: str, tmp_path: Path, request: pytest.FixtureRequest, figure: Figure
) -> None:
    sqlite = where == "the host of a SQLite file"
    store = str(tmp_path / "jobs.db") if sqlite else url_of(request.getfixturevalue("postgres_dsn"))
    whose = "store" if where == "the server" else "host"
    variables = {"HOLDFAST_TEST_STEPS": str(tmp_path / "steps"), "HOLDFAST_TEST_WHOSE": whose}
    offset = Offset(tmp_path / "steps")
    app = make(holdfast.App(store, clock=clock_of(whose, tmp_path / "steps")))
    with crew(store, tmp_path, lease=LEASE, **variables) as workers:
        workers.app = "tests.chaos.environment_faults.clocked:app"
        app.schedules.ensure()
        for _ in range(3):
            workers.start()
        until(lambda: len(app.workers.list()) == 3, 60, "all are there", workers.log)
        steps = work_through_steps(app, workers, offset)
        workers.wait_for_all(app)
        assert workers.stop_all() == [0, 0, 0]
        require_calm(app, workers)
    app.close()
    figure(steps, "clock jumps of an hour")


def work_through_steps(app: holdfast.App, workers: Crew, offset: Offset) -> int:
    """Forward and back, at any moment between two beats, while jobs run for longer than a lease."""
    dice = random.Random(SEED)
    for n in range(scaled(3)):
        for _ in range(6):
            workers.enqueue(app.tasks["entry"], 1.2 * LEASE)
        until(lambda: len(workers.seen("S")) == len(workers.seen("Q")), 60, "they run", workers.log)
        for step in (HOUR, -HOUR) if n % 2 == 0 else (-HOUR, HOUR):
            offset.step(step)
            until_passed(dice.uniform(0.2, 0.4) * LEASE)
        until(lambda: unfinished(app) == 0, 60, "they have ended", workers.log)
    return 2 * scaled(3)


def until_passed(seconds: float) -> None:
    """Let the workers go on for a while."""
    signal.sigtimedwait([], seconds)


def require_calm(app: holdfast.App, workers: Crew) -> None:
    facts = workers.require(app)
    assert not [row for row in facts.of("attempt") if row.outcome == "lost"], workers.log.read_text()[-3000:]
    runs = Counter(line.job for line in facts.ledger if line.mark == "S")
    assert set(runs.values()) == {1}, workers.log.read_text()[-3000:]
    ticks = [one.tick for one in app.schedules.ticks("minutely", 10_000)]
    assert len(ticks) == len(set(ticks))
    made = sum(job.task == "minutely" for job in facts.jobs.values())
    assert made == len(ticks)
