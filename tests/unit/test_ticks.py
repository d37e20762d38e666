"""When the ticks of a schedule are, and which of those that are due make a job."""

from __future__ import annotations

from itertools import islice

import pytest

from holdfast.clock import SECOND
from holdfast.errors import InvalidInput
from holdfast.model.schedules import Timing
from holdfast.rules.schedules import LATE, due_ticks, jitter_of, newest_ticks, next_tick, ticks_after, ticks_between

ANCHOR = 1_000 * SECOND
EVERY_TEN = Timing(expression=None, every=10 * SECOND, zone="UTC", anchor=ANCHOR)
EACH_MINUTE = Timing(expression="* * * * *", every=None, zone="UTC", anchor=0)


def at(seconds: float) -> int:
    """So long after the interval began."""
    return ANCHOR + round(seconds * SECOND)


@pytest.mark.parametrize(
    ("instant", "first"), [(-500, 10), (0, 10), (9.9, 10), (10, 20), (10.1, 20), (49.9, 50), (50, 60), (55, 60)]
)
def test_an_interval_ticks_at_multiples_of_itself_and_not_at_its_beginning(instant: float, first: float) -> None:
    assert list(islice(ticks_after(EVERY_TEN, at(instant)), 3)) == [at(first), at(first + 10), at(first + 20)]
    assert next_tick(EVERY_TEN, at(instant)) == at(first)


@pytest.mark.parametrize(("instant", "first"), [(0, 60), (59, 60), (60, 120), (61, 120)])
def test_an_expression_ticks_later_than_the_instant_and_never_at_it(instant: int, first: int) -> None:
    assert next_tick(EACH_MINUTE, instant * SECOND) == first * SECOND


@pytest.mark.parametrize("n", [1, 2, 7, 200])
@pytest.mark.parametrize("until", [0, 10, 15, 70, 100_000])
def test_the_newest_ticks_are_the_last_of_all(n: int, until: int) -> None:
    every_one = [at(second) for second in range(30, until + 1, 10)]
    assert newest_ticks(EVERY_TEN, at(20), at(until), n) == every_one[-n:]


def test_a_range_has_its_beginning_and_not_its_end() -> None:
    assert ticks_between(EVERY_TEN, at(20), at(40), 2) == [at(20), at(30)]
    assert ticks_between(EVERY_TEN, at(21), at(30), 2) == []


def test_a_range_of_more_ticks_than_allowed_is_refused() -> None:
    with pytest.raises(InvalidInput, match="more than 2 ticks"):
        ticks_between(EVERY_TEN, at(20), at(41), 2)


def test_nothing_is_due_before_the_next_tick_nor_by_a_clock_that_was_set_back() -> None:
    for now in (29.9, 0, -999):
        due = due_ticks(EVERY_TEN, "all", 9, at(20), at(now))
        assert (due.ticks, due.last_tick, due.next_tick, due.skipped) == ((), at(20), at(30), 0)


@pytest.mark.parametrize("now", [50, 55])
@pytest.mark.parametrize(("missed", "made", "skipped"), [("all", (40, 50), 1), ("last", (50,), 2), ("skip", (50,), 2)])
def test_of_those_that_were_missed_the_policy_chooses(
    missed: str, made: tuple[int, ...], skipped: int, now: int
) -> None:
    due = due_ticks(EVERY_TEN, missed, 2, at(20), at(now))  # type: ignore[arg-type]
    assert due.ticks == tuple(at(second) for second in made)
    assert (due.last_tick, due.next_tick, due.skipped) == (at(50), at(60), skipped)


@pytest.mark.parametrize(("late", "made"), [(0, 1), (LATE, 1), (LATE + 1, 0)])
def test_a_tick_is_late_after_a_minute(late: int, made: int) -> None:
    hourly = Timing(expression=None, every=3600 * SECOND, zone="UTC", anchor=ANCHOR)
    tick = ANCHOR + 3600 * SECOND
    due = due_ticks(hourly, "skip", 9, ANCHOR, tick + late)
    assert (len(due.ticks), due.skipped, due.last_tick) == (made, 1 - made, tick)


def test_jitter_is_the_same_for_everybody_and_within_its_bounds() -> None:
    drawn = [jitter_of("nightly", tick, 3) for tick in range(200)]
    assert set(drawn) == {0, 1, 2, 3}
    assert drawn == [jitter_of("nightly", tick, 3) for tick in range(200)]
    assert [jitter_of("nightly", 1, jitter) for jitter in (0, -5)] == [0, 0]
    assert drawn != [jitter_of("other", tick, 3) for tick in range(200)]
