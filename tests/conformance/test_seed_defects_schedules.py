"""Defects of schedulers that came before, each shown to be absent here on both databases."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from holdfast.clock import SECOND
from holdfast.errors import StorageBusy, StorageError
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done
from holdfast.model.schedules import ScheduleState
from holdfast.storage.ops.schedules import firing
from holdfast.storage.port import Params
from holdfast.storage.statements import Statement
from holdfast.worker.maintenance.scheduler import Scheduler

from .faulty import FaultyStore
from .timetable import at, create, fire, get, key, set_clock, ticks
from .world import World


@pytest.fixture(params=["file", "postgres"])
def each_database(request: pytest.FixtureRequest, ground: object) -> World:
    return ground.open(request.param)  # type: ignore[attr-defined]


def test_d10_a_lock_error_at_enqueue_disables_no_schedule_and_loses_no_tick(
    each_database: World, caplog: pytest.LogCaptureFixture
) -> None:
    world = each_database
    set_clock(world, "2024-05-01T11:30")
    create(world, "a-locked", task="locked", missed="all")
    create(world, "b-fine", missed="all")
    locked = True

    def lock(statement: Statement, rows: Sequence[Params]) -> None:
        if locked and statement.name == "insert_job" and rows[0]["task"] == "locked":
            raise StorageBusy("database is locked")

    scheduler = Scheduler(FaultyStore(world.store, lock), lambda: True, world.clock)  # type: ignore[arg-type]

    async def scene() -> None:
        nonlocal locked
        await scheduler.run_once()
        world.clock.advance(3 * 3600)
        await scheduler.run_once()
        broken = get(world, "a-locked")
        assert (broken.state, broken.fired) == (ScheduleState.ACTIVE, 0)
        assert broken.last_error is not None and "database is locked" in broken.last_error
        assert (ticks(world, "a-locked"), world.jobs()) == ([], 3)
        locked = False
        world.clock.advance(60)
        await scheduler.run_once()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scene())
    for name in ("a-locked", "b-fine"):
        mended = get(world, name)
        # The ticks of 12:00, 13:00 and 14:00, each once, after all.
        assert (mended.state, mended.fired, mended.last_error) == (ScheduleState.ACTIVE, 3, None)
        assert ticks(world, name) == [at(f"2024-05-01T{hour}:00") for hour in (12, 13, 14)]


def test_d10_an_error_at_any_statement_of_a_firing_leaves_nothing_behind(each_database: World) -> None:
    world = each_database
    set_clock(world, "2024-05-01T11:30")
    create(world, overlap="skip")
    world.clock.advance(1800)
    before = get(world)
    count = 0

    async def attempt(fail_at: int) -> bool:
        seen = 0

        def break_there(statement: Statement, rows: Sequence[Params]) -> None:
            nonlocal seen
            seen += 1
            if seen == fail_at:
                raise StorageError("the disk broke")

        store = FaultyStore(world.store, break_there)
        scheduler = Scheduler(store, lambda: True, world.clock)  # type: ignore[arg-type]
        await scheduler._fire(key(), world.now)
        return seen >= fail_at

    while asyncio.run(attempt(count := count + 1)):
        after = get(world)
        assert (after.last_tick, after.next_tick, after.state) == (before.last_tick, before.next_tick, before.state)
        assert world.jobs() == 0
        assert ticks(world) == []
    assert count > 5
    assert len(ticks(world)) == world.jobs() == 1


def test_d11_running_a_schedule_now_keeps_its_next_tick_in_its_own_zone(each_database: World) -> None:
    world = each_database
    set_clock(world, "2024-10-26T20:00")
    create(world, expression="30 2 * * *", zone="America/New_York")
    first = int(datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("America/New_York")).timestamp()) * SECOND
    assert get(world).next_tick == first
    ran = world.run(firing.run_now, key())
    assert ran.job_id is not None
    assert world.job(ran.job_id).state is JobState.READY
    after = get(world)
    assert (after.next_tick, after.last_tick) == (first, after.created_at)
    set_clock(world, "2024-10-27T06:30")
    assert len(fire(world).jobs) == 1
    assert ticks(world) == [first]


@pytest.mark.parametrize("overlap", ["skip", "cancel_previous"])
def test_d11_running_a_schedule_now_heeds_what_still_runs(each_database: World, overlap: str) -> None:
    world = each_database
    create(world, overlap=overlap)
    first = world.run(firing.run_now, key()).job_id
    again = world.run(firing.run_now, key())
    assert first is not None
    if overlap == "skip":
        assert (again.job_id, again.blocker) == (None, first)
        assert (get(world).fired, get(world).skipped, world.jobs()) == (1, 1, 1)
        world.clock.advance(7200)
        assert fire(world).jobs == ()
        owner = world.worker()
        world.finish(owner, world.take(owner), Done("null"))
        assert world.run(firing.run_now, key()).job_id is not None
    else:
        assert again.job_id not in (None, first)
        assert world.job(first).state is JobState.CANCELLED
