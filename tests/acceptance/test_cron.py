"""Real workers on one store, killed at random, under a clock that steps both ways: each tick makes one job."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.model.schedules import ScheduleKey
from holdfast.model.values import micros_of
from holdfast.rules.schedules import ticks_after
from holdfast.storage.ops.schedules import schedules
from holdfast.storage.port import Op
from tests.acceptance.cron_jobs import FileClock, make
from tests.acceptance.fleet import Fleet, until

pytestmark = pytest.mark.thorough

TICKS = 1_000
NAMES = ("minutely", "nightly", "beat")
# The night in which the clocks of Paris are set back, and an hour comes twice.
START = int(datetime(2024, 10, 26, 12, tzinfo=UTC).timestamp()) * SECOND


class CronFleet(Fleet):
    """Workers whose schedules are all there is to do."""

    def __init__(self, store: str, folder: Path) -> None:
        super().__init__(store, folder)
        self.clock_file = folder / "clock"
        self.clock = FileClock.create(self.clock_file, START)
        self.environment |= {
            "HOLDFAST_TEST_CLOCK": str(self.clock_file),
            "HOLDFAST_LEAD_INTERVAL": "0.05",
            "HOLDFAST_SCHEDULE_INTERVAL": "0.05",
        }

    def start(self, *options: str) -> object:  # type: ignore[override]
        process = self.run_python("-m", "holdfast", "worker", "tests.acceptance.cron_jobs:app", *options)
        self.workers.append(process)
        return process


@pytest.fixture
def fleet(store_url: str, tmp_path: Path) -> Iterator[CronFleet]:
    fleet = CronFleet(store_url, tmp_path)
    yield fleet
    fleet.end()


@pytest.fixture
def eye(store_url: str, fleet: CronFleet) -> Iterator[holdfast.App]:
    """The same store and clock, from outside."""
    app = make(holdfast.App(store_url, clock=fleet.clock))
    yield app
    app.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [2, 5])
def test_a_thousand_ticks_make_a_thousand_jobs_in_killed_workers(
    eye: holdfast.App, fleet: CronFleet, workers: int
) -> None:
    luck = random.Random(workers)
    eye.schedules.ensure()
    for _ in range(workers):
        fleet.start()
    furthest, kills = START, 0
    while _wanted(eye, furthest) < TICKS:
        _step(fleet.clock, luck)
        furthest = max(furthest, fleet.clock.now())
        if luck.random() < 0.3:
            fleet.kill(luck.randrange(workers))
            kills += 1
        until(lambda: not _due(eye), 60, "every due tick is fired", fleet.log)
    fleet.clock.step((furthest - fleet.clock.now()) / SECOND)
    until(lambda: not _due(eye), 60, "every due tick is fired", fleet.log)
    fleet.end()
    fired = {name: [micros_of(one.tick) for one in eye.schedules.ticks(name, 100_000)] for name in NAMES}
    assert {name: sorted(ticks) for name, ticks in fired.items()} == {
        name: list(_ticks(eye, name, furthest)) for name in NAMES
    }
    jobs = Counter(job.task for job in eye.jobs.find(holdfast.model.JobFilter(limit=10_000)))
    assert jobs == {name: len(ticks) for name, ticks in fired.items()}
    assert kills >= 3


def _step(clock: FileClock, luck: random.Random) -> None:
    clock.step(-luck.uniform(1, 1800) if luck.random() < 0.15 else luck.choice([60.0, 240.0, 900.0, 3000.0, 7000.0]))


def _due(eye: holdfast.App) -> bool:
    now = eye._clock.now() if eye._clock else 0
    return any(
        schedule.next_tick is not None and micros_of(schedule.next_tick) <= now for schedule in eye.schedules.list()
    )


def _wanted(eye: holdfast.App, instant: int) -> int:
    return sum(len(list(_ticks(eye, name, instant))) for name in NAMES)


def _ticks(eye: holdfast.App, name: str, instant: int) -> Iterator[int]:
    record = eye.open().read(Op(lambda tx: schedules.get_schedule(tx, ScheduleKey("", name))))
    return takewhile(lambda tick: tick <= instant, ticks_after(record.timing, record.created_at))
