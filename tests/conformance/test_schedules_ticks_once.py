"""Many schedulers on one store, that die anywhere, under a clock that steps both ways: each tick makes one job."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import takewhile

import pytest

from holdfast.clock import SECOND
from holdfast.rules.schedules import ticks_after
from holdfast.storage.ops.jobs import actions
from holdfast.storage.port import Params
from holdfast.storage.statements import Statement
from holdfast.worker.maintenance.scheduler import Scheduler

from .conftest import Ground
from .faulty import FaultyStore
from .timetable import create, get, set_clock
from .world import World

TICKS = 1_000
NAMES = ("minutely", "nightly", "beat")


class Killed(Exception):
    """A scheduler died here: it never continues."""


class Replica:
    """A process with a scheduler: dies now and then, and is started afresh."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.deaths = 0
        self._luck = random.Random(seed)
        self._reborn()

    def run_once(self) -> None:
        try:
            asyncio.run(self._scheduler.run_once())
        except Killed:
            self._reborn()
        if self._dying:
            self._reborn()

    def _reborn(self) -> None:
        self.deaths += 1
        self._dying = False
        store = FaultyStore(self.world.store, self._perhaps_die, self._perhaps_die_at_end)
        self._scheduler = Scheduler(store, lambda: True, self.world.clock)  # type: ignore[arg-type]

    def _perhaps_die(self, statement: Statement, rows: Sequence[Params]) -> None:
        # Once dead it does nothing more, whatever its own error handling tries.
        if self._dying or self._luck.random() < 0.01:
            self._dying = True
            raise Killed

    def _perhaps_die_at_end(self) -> None:
        if self._luck.random() < 0.01:
            self._dying = True
            raise Killed


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, ground: Ground) -> tuple[str, str]:
    return ground.place(request.param), request.param


@pytest.fixture
def worlds(place: tuple[str, str], ground: Ground, replicas: int) -> Iterator[list[World]]:
    with ExitStack() as stack:
        first = ground.join(*place, until=stack)
        yield [first, *(ground.join(*place, clock=first.clock, until=stack) for _ in range(replicas - 1))]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("replicas", [2, 5])
def test_a_thousand_ticks_make_a_thousand_jobs_whoever_dies_and_however_the_clock_steps(worlds: list[World]) -> None:
    world, luck = worlds[0], random.Random(len(worlds))
    # The night in which the clocks of Paris are set back, and an hour comes twice.
    start = set_clock(world, "2024-10-26T12:00")
    create(world, "minutely", expression="*/2 * * * *", zone="Europe/Paris", missed="all", max_missed=1000)
    create(world, "nightly", expression="30 2 * * *", zone="Europe/Paris", missed="all", max_missed=1000)
    create(world, "beat", every=97 * SECOND, missed="all", max_missed=1000)
    crew = [Replica(each, seed) for seed, each in enumerate(worlds)]
    furthest, deleted = start, 0
    while _expected(world, furthest) < TICKS:
        _step(world, luck)
        furthest = max(furthest, world.now)
        _all_at_once(crew)
        if luck.random() < 0.2:
            deleted += _retention(world, luck)
    world.clock.step((furthest - world.now) / SECOND)
    while any((get(world, name).next_tick or 0) <= world.now for name in NAMES):
        world.clock.advance(0.5)
        _all_at_once(crew)
    made = Counter(world.sql("select schedule, tick from holdfast_cron_tick"))
    wanted = {(name, tick) for name in NAMES for tick in _ticks(world, name, world.now)}
    assert set(made) == wanted
    assert world.jobs() + deleted == len(wanted)
    assert sum(get(world, name).fired for name in NAMES) == len(wanted) >= TICKS
    assert sum(replica.deaths for replica in crew) > 20


def _step(world: World, luck: random.Random) -> None:
    """Mostly forward, by less than a tick or over many; at times back, as an operator would set it."""
    if luck.random() < 0.15:
        world.clock.step(-luck.uniform(1, 1800))
    else:
        world.clock.advance(luck.choice([13.0, 60.0, 240.0, 900.0, 3000.0]))


def _all_at_once(crew: Sequence[Replica]) -> None:
    threads = [threading.Thread(target=replica.run_once) for replica in crew]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _retention(world: World, luck: random.Random) -> int:
    """Jobs go while their ticks must still be known; how many."""
    old = [job_id for (job_id,) in world.sql("select id from holdfast_any_job order by id limit 50")]
    going = [job_id for job_id in old if luck.random() < 0.5]
    for job_id in going:
        world.run(actions.delete, job_id)
    return len(going)


def _expected(world: World, until: int) -> int:
    return sum(len(_ticks(world, name, until)) for name in NAMES)


def _ticks(world: World, name: str, until: int) -> list[int]:
    schedule = get(world, name)
    return list(takewhile(lambda tick: tick <= until, ticks_after(schedule.timing, schedule.created_at)))
