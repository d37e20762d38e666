"""Where time comes from."""

from __future__ import annotations

import time

from holdfast.clock import SECOND, SYSTEM_CLOCK, Clock, ManualClock, SystemClock


def test_the_system_clock_counts_microseconds_since_1970() -> None:
    before = time.time_ns() // 1000
    now = SYSTEM_CLOCK.now()
    assert before <= now <= time.time_ns() // 1000


def test_the_system_clock_measures_by_the_monotonic_clock() -> None:
    before = time.monotonic()
    assert before <= SystemClock().monotonic() <= time.monotonic()


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock()
    assert (clock.now(), clock.monotonic()) == (clock.now(), clock.monotonic())


def test_advancing_moves_both_clocks() -> None:
    clock = ManualClock(start=5 * SECOND)
    measured = clock.monotonic()
    clock.advance(1.5)
    assert clock.now() == 6_500_000
    assert clock.monotonic() - measured == 1.5


def test_a_step_moves_the_wall_clock_only() -> None:
    clock = ManualClock(start=100 * SECOND)
    measured = clock.monotonic()
    clock.step(-60)
    assert clock.now() == 40 * SECOND
    assert clock.monotonic() == measured


def test_both_clocks_can_stand_for_each_other() -> None:
    clocks: list[Clock] = [SystemClock(), ManualClock()]
    assert all(isinstance(clock.now(), int) for clock in clocks)
