"""Claims that begin where the last began: they take what others would, and miss nothing for long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.model.limits import JobLimits, key_lane
from holdfast.model.outcomes import Done, Finish
from holdfast.model.routing import Route
from holdfast.storage.ops.jobs import claims
from holdfast.storage.ops.jobs.claims import Turn, encode_routes
from holdfast.worker.claiming.position import ClaimPosition

from .world import World, claim_request, spec


class Reader:
    """A worker that claims beyond its mark, as the turns of one do."""

    def __init__(self, world: World, queues: Sequence[str] = ("default",)) -> None:
        self._world = world
        self._queues = queues
        self._routes = encode_routes([[Route(queue)] for queue in queues])
        self.owner = world.worker(queues=queues)
        self.bookmark = ClaimPosition(world.clock)

    def claim(self, n: int, *done: Finish) -> list[str]:
        return self.hear(*self.ask(n, *done))

    def ask(self, n: int, *done: Finish, **options: Any) -> tuple[Turn, int]:
        """Claim, and hear the answer later."""
        beyond, edition = self.bookmark.beyond(self._routes), self.bookmark.edition
        request = claim_request(self.owner, n, queues=self._queues, beyond=beyond, **options)
        return self._world.run(claims.turn, self.owner, list(done), request), edition

    def hear(self, turn: Turn, edition: int) -> list[str]:
        if turn.met_limits:
            self.bookmark.met_limits()
        else:
            self.bookmark.note(turn.claimed, edition)
        return [job.id for job in turn.claimed]

    @property
    def skips(self) -> bool:
        """Whether the next claim leaves something out."""
        return self.bookmark.beyond(self._routes) is not None


@pytest.fixture
def reader(world: World) -> Reader:
    return Reader(world)


def _wait_in_line(world: World, count: int, **fields: Any) -> list[str]:
    """Jobs that came one after the other, the last of them a while ago."""
    made = []
    for _ in range(count):
        made.append(world.add(**fields))
        world.clock.advance(0.01)
    world.clock.advance(10)
    return made


def _turn_up_late(world: World, age: float = 60, **fields: Any) -> str:
    """A job with an old place in the line, such as one whose transaction was long."""
    return world.add(at=world.now - round(age * SECOND), **fields)


def test_claims_keep_the_order_of_priorities_and_ranks(world: World, reader: Reader) -> None:
    low, high, middle = (_wait_in_line(world, 5, priority=priority) for priority in (-1, 7, 0))
    assert [job for _ in range(8) for job in reader.claim(2)] == [*high, *middle, *low]


def test_a_higher_priority_that_comes_later_is_taken_first(world: World, reader: Reader) -> None:
    _wait_in_line(world, 3)
    reader.claim(1)
    urgent = world.add(priority=5)
    assert reader.skips
    assert reader.claim(1) == [urgent]


def test_a_lower_priority_is_taken_where_there_is_room_left(world: World, reader: Reader) -> None:
    (low,) = _wait_in_line(world, 1, priority=-3)
    known = _wait_in_line(world, 2)
    assert reader.claim(1) == known[:1]
    assert reader.skips
    assert reader.claim(2) == [known[1], low]


def test_what_lies_before_the_mark_is_taken_where_there_is_room_left(world: World, reader: Reader) -> None:
    _wait_in_line(world, 1)
    reader.claim(1)
    late = _turn_up_late(world)
    assert reader.skips
    assert reader.claim(2) == [late]


def test_full_claims_pass_what_lies_before_the_mark_for_half_a_second_at_most(world: World, reader: Reader) -> None:
    known = _wait_in_line(world, 3)
    assert reader.claim(1) == known[:1]
    late = [_turn_up_late(world) for _ in range(2)]
    assert reader.claim(1) == known[1:2]
    world.clock.advance(0.5)
    assert reader.claim(1) == late[:1]
    assert reader.claim(1) == late[1:], "one that was found late says that there may be more"
    assert reader.claim(1) == known[2:]


def test_a_look_back_that_is_filled_from_above_is_made_up_for(world: World, reader: Reader) -> None:
    _wait_in_line(world, 2)
    reader.claim(1)
    late = _turn_up_late(world)
    urgent = world.add(priority=5)
    world.clock.advance(0.5)
    assert reader.claim(1) == [urgent]
    assert reader.claim(1) == [late]


def test_an_answer_to_what_was_asked_before_a_look_back_marks_nothing(world: World, reader: Reader) -> None:
    known = _wait_in_line(world, 4)
    reader.claim(1)
    earlier = reader.ask(1)
    late = [_turn_up_late(world) for _ in range(2)]
    world.clock.advance(0.5)
    assert reader.claim(1) == late[:1]
    assert reader.hear(*earlier) == known[1:2]
    assert reader.claim(1) == late[1:]


def test_two_turns_that_both_look_at_everything_leave_a_mark(world: World, reader: Reader) -> None:
    known = _wait_in_line(world, 4)
    first, second = reader.ask(1), reader.ask(1)
    assert reader.hear(*first) == known[:1]
    assert reader.skips
    assert reader.hear(*second) == known[1:2]
    assert reader.claim(2) == known[2:]


def test_a_job_whose_transaction_was_the_slower_one_is_not_behind_the_mark(world: World, reader: Reader) -> None:
    for _ in range(3):
        world.add()
    reader.claim(1)
    slower = _turn_up_late(world, 1)
    assert reader.skips
    assert reader.claim(1) == [slower]


def test_who_waits_behind_a_limit_is_not_passed_by_jobs_without_one(world: World, reader: Reader) -> None:
    limits = JobLimits(key=key_lane("", "k"), capacity=1).encode()
    keyed = _wait_in_line(world, 3, limits=limits)
    free = _wait_in_line(world, 9)
    turn, edition = reader.ask(3)
    assert reader.hear(turn, edition) == [keyed[0]], "the others are parked"
    assert reader.claim(2) == free[:2]
    assert reader.claim(1, Finish(keyed[0], 1, Done("null"))) == free[2:3]
    assert reader.claim(2) == [keyed[1], free[3]]
    world.clock.advance(5)
    reader.claim(1)
    assert reader.skips, "nobody has met a limit for a while"


def test_suspects_do_not_move_the_mark(world: World, reader: Reader) -> None:
    lost = world.worker()
    (suspect,) = _wait_in_line(world, 1)
    world.take(lost)
    world.lose_twice(lost)
    known = _wait_in_line(world, 2)
    turn, edition = reader.ask(1, suspects=1)
    assert reader.hear(turn, edition) == [suspect]
    assert not reader.skips
    assert reader.claim(1) == known[:1]


def test_a_claim_of_several_priorities_or_queues_leaves_no_mark(world: World) -> None:
    reader = Reader(world, ["a", "b"])
    _wait_in_line(world, 1, queue="a", priority=1)
    _wait_in_line(world, 1, queue="a")
    reader.claim(2)
    assert not reader.skips
    _wait_in_line(world, 1, queue="a")
    _wait_in_line(world, 1, queue="b")
    reader.claim(2)
    assert not reader.skips


def test_jobs_whose_place_is_not_the_time_of_their_making_leave_no_mark(world: World, reader: Reader) -> None:
    world.enqueue(*(spec(at=world.now - n) for n in range(5)))
    world.clock.advance(10)
    reader.claim(2)
    assert not reader.skips


def test_other_queues_are_claimed_from_as_ever(world: World) -> None:
    reader = Reader(world, ["a", "b"])
    first = _wait_in_line(world, 2, queue="a")
    second = world.add(queue="b", at=world.now - 90 * SECOND)
    assert reader.claim(1) == first[:1]
    assert reader.skips
    assert set(reader.claim(2)) == {first[1], second}
