"""Which affinity a worker works for next: the rule alone."""

from __future__ import annotations

from typing import Any

from holdfast.clock import SECOND
from holdfast.rules.routing import Head, Hold, choose, loaded


def head(affinity: str, **fields: Any) -> Head:
    known = {"tier": 0, "priority": 0, "rank": 0, "id": affinity, "waited": 0}
    return Head(affinity, **{**known, **fields})


def hold(*resident: str, in_use: tuple[str, ...] = (), most: int = 1, **more: Any) -> Hold:
    return Hold(resident, frozenset(in_use), most, **more)


def test_the_oldest_is_loaded_first() -> None:
    assert choose(hold(), [head("b", rank=2), head("a", rank=3)]) == ("b",)


def test_what_is_loaded_comes_before_what_is_older() -> None:
    assert choose(hold("a"), [head("b", rank=2), head("a", rank=3)]) == ("a",)


def test_what_is_loaded_gives_way_when_it_has_no_jobs() -> None:
    assert choose(hold("a"), [head("b")]) == ("b",)


def test_a_higher_priority_and_an_earlier_queue_are_worth_a_load() -> None:
    assert choose(hold("a"), [head("b", priority=1), head("a")]) == ("b",)
    assert choose(hold("a"), [head("b"), head("a", tier=1, priority=9)]) == ("b",)


def test_nothing_is_claimed_for_what_runs_while_a_better_one_waits_for_its_place() -> None:
    assert choose(hold("a", in_use=("a",)), [head("b", priority=1), head("a")]) == ()


def test_two_places_are_for_the_two_best() -> None:
    heads = [head("a", rank=3), head("b", rank=2), head("c", rank=1)]
    assert choose(hold("a", most=2), heads) == ("a", "c")
    assert choose(hold("a", "b", in_use=("b",), most=2), [*heads, head("d", priority=1)]) == ("d", "b")


def test_one_affinity_of_two_routes_is_judged_by_its_best_job() -> None:
    assert choose(hold(), [head("a", rank=5), head("b", rank=2), head("a", rank=1)]) == ("a",)


def test_the_last_used_stay_loaded() -> None:
    assert loaded(hold("a", "b", most=2), ("c",)) == ("c", "a")
    assert loaded(hold("a", "b", in_use=("b",), most=2), ("c",)) == ("c", "b")


def test_others_are_late_when_half_of_the_bound_is_over() -> None:
    bound = hold("a", wait=10 * SECOND)
    assert choose(bound, [head("a"), head("b", waited=5 * SECOND - 1)]) == ("a",)
    assert choose(bound, [head("a"), head("b", waited=5 * SECOND)]) == ("b",)


def test_among_late_ones_the_oldest_comes_first() -> None:
    heads = [head("a"), head("b", waited=6 * SECOND), head("c", waited=7 * SECOND)]
    assert choose(hold("a", wait=10 * SECOND), heads) == ("c",)


def test_a_late_one_is_served_for_its_share_of_the_bound_before_the_next() -> None:
    heads = [head("b"), head("c", waited=9 * SECOND)]
    assert choose(hold("b", wait=10 * SECOND, stints={"b": SECOND}), heads) == ("b",)
    assert choose(hold("b", wait=10 * SECOND, stints={"b": 3 * SECOND}), heads) == ("c",)


def test_priority_is_stronger_than_the_bound() -> None:
    heads = [head("a", priority=1), head("b", waited=60 * SECOND)]
    assert choose(hold("a", wait=10 * SECOND), heads) == ("a",)


def test_a_job_from_the_future_is_not_late() -> None:
    assert choose(hold("a", wait=2), [head("a"), head("b", waited=-5)]) == ("a",)
