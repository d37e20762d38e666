"""Claims that begin where the last ended: they take what others would, and miss nothing for long."""

from __future__ import annotations

import pytest

from holdfast.clock import SECOND
from holdfast.engine.bookmarks import Bookmarks
from holdfast.model.limits import JobLimits, key_lane
from holdfast.model.route import Route
from holdfast.storage.ops.claims import encode_routes

from .world import World, spec

_ROUTES = encode_routes([[Route("default")]])


class Reader:
    """A worker that claims beyond its marks."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._owner = world.worker()
        self.marks = Bookmarks(world.clock)

    def claim(self, n: int) -> list[str]:
        jobs = self._world.claim(self._owner, n, beyond=self.marks.beyond(_ROUTES))
        self.marks.note(jobs)
        return [job.id for job in jobs]

    @property
    def skips(self) -> bool:
        """Whether the next claim leaves something out."""
        return self.marks.beyond(_ROUTES) is not None


@pytest.fixture
def reader(world: World) -> Reader:
    return Reader(world)


def _old(world: World, age: int, **fields: object) -> str:
    return world.add(at=world.now - age * SECOND, **fields)


def test_claims_from_marks_keep_the_order_of_priorities_and_ranks(world: World, reader: Reader) -> None:
    made = [(priority, age, _old(world, age, priority=priority)) for age in range(10, 20) for priority in (-1, 0, 7)]
    wanted = [job for _, _, job in sorted(made, key=lambda m: (-m[0], -m[1]))]
    assert [job for _ in range(15) for job in reader.claim(2)] == wanted


def test_a_higher_priority_that_comes_later_is_taken_first(world: World, reader: Reader) -> None:
    for age in (30, 20, 10):
        _old(world, age)
    reader.claim(1)
    urgent = _old(world, 40, priority=5)
    assert reader.skips
    assert reader.claim(1) == [urgent]


def test_what_lies_before_a_mark_is_taken_where_there_is_room_left(world: World, reader: Reader) -> None:
    _old(world, 30)
    reader.claim(1)
    late = _old(world, 60)
    assert reader.skips
    assert reader.claim(2) == [late]


def test_full_claims_pass_what_lies_before_the_mark_until_half_a_second_is_over(world: World, reader: Reader) -> None:
    known = [_old(world, age) for age in (30, 20, 10)]
    assert reader.claim(1) == known[:1]
    late = _old(world, 60)
    assert reader.claim(1) == known[1:2]
    world.clock.advance(0.5)
    assert reader.claim(1) == [late]
    assert reader.claim(1) == known[2:]


def test_what_was_found_before_a_mark_takes_the_mark_back_to_it(world: World, reader: Reader) -> None:
    _old(world, 30)
    reader.claim(1)
    late = [_old(world, age) for age in (62, 61, 60)]
    world.clock.advance(0.5)
    assert reader.claim(1) == late[:1]
    newer = _old(world, 20)
    assert reader.claim(1) == late[1:2]
    assert reader.claim(2) == [late[2], newer]


def test_a_job_whose_transaction_was_the_slower_one_is_not_behind_a_mark(world: World, reader: Reader) -> None:
    for _ in range(3):
        _old(world, 0)
    reader.claim(1)
    slower = _old(world, 1)
    assert reader.skips
    assert reader.claim(1) == [slower]


def test_jobs_with_limits_leave_no_marks(world: World, reader: Reader) -> None:
    _old(world, 30)
    reader.claim(1)
    assert reader.skips
    limits = JobLimits(key=key_lane("", "k"), capacity=5)
    world.enqueue(spec(at=world.now - 20 * SECOND, limits=limits.encode()))
    assert len(reader.claim(1)) == 1
    assert not reader.skips


def test_with_too_many_priorities_claims_look_at_everything(world: World, reader: Reader) -> None:
    for priority in range(9):
        _old(world, 10, priority=priority)
    assert len(reader.claim(9)) == 9
    assert not reader.skips


def test_other_routes_are_claimed_from_as_ever(world: World) -> None:
    marks, owner = Bookmarks(world.clock), world.worker(queues=["a", "b"])
    routes = encode_routes([[Route("a")], [Route("b")]])
    first = [world.add(queue="a", at=world.now - age * SECOND) for age in (30, 20)]
    second = world.add(queue="b", at=world.now - 90 * SECOND)
    marks.note(world.claim(owner, 1, queues=["a", "b"]))
    beyond = marks.beyond(routes)
    assert beyond is not None
    assert {job.id for job in world.claim(owner, 2, queues=["a", "b"], beyond=beyond)} == {first[1], second}
