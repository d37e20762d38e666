"""A queue's total over all workers, and queues that nobody serves."""

from __future__ import annotations

from holdfast.storage.ops.limits import totals
from holdfast.storage.ops.routing.stranded import stranded
from holdfast.storage.ops.workers import workers

from .world import World


def shares(world: World, *ids: str) -> list[int | None]:
    return [world.read(totals.shares_of, worker).get("default") for worker in ids]


def holders(world: World) -> list[str]:
    return [row[0] for row in world.sql("select worker from holdfast_share order by worker")]


def test_a_total_is_split_with_the_remainder_to_the_first_by_id(world: World) -> None:
    names = [world.worker(name) for name in ("a", "b", "c")]
    world.run(totals.set_total, "default", 8)
    assert shares(world, *names) == [3, 3, 2]


def test_only_workers_that_serve_the_queue_have_a_share(world: World) -> None:
    mine = world.worker("a")
    world.worker("b", queues=["mail"])
    world.run(totals.set_total, "default", 5)
    assert shares(world, mine) == [5]
    assert holders(world) == [mine]


def test_the_share_of_a_lost_worker_goes_to_the_others(world: World) -> None:
    world.worker("a")
    other = world.worker("b")
    world.run(totals.set_total, "default", 4)
    world.clock.advance(31)
    world.run(workers.beat, other)
    assert world.run(totals.share_out) == 2
    assert shares(world, other) == [4]
    assert holders(world) == [other]


def test_a_split_that_changes_nothing_writes_nothing(world: World) -> None:
    world.worker("a")
    world.run(totals.set_total, "default", 4)
    assert world.run(totals.share_out) == 0


def test_before_the_first_split_a_worker_takes_its_part_rounded_up(world: World) -> None:
    world.run(totals.set_total, "default", 5)
    names = [world.worker(name) for name in ("a", "b")]
    assert shares(world, *names) == [3, 3]


def test_removing_a_total_removes_the_shares(world: World) -> None:
    mine = world.worker("a")
    world.run(totals.set_total, "default", 5)
    world.run(totals.set_total, "default", None)
    assert shares(world, mine) == [None]
    assert holders(world) == []


def test_a_queue_with_a_total_that_nobody_serves_is_reported_also_without_jobs(world: World) -> None:
    world.run(totals.set_total, "ghost", 5)
    assert [(one.queue, one.job, one.code) for one in world.read(stranded)] == [("ghost", None, "no_worker")]
    world.worker(queues=("default",))
    assert [one.code for one in world.read(stranded)] == ["queue_not_served"]
    world.worker(queues=("ghost",))
    assert world.read(stranded) == []
