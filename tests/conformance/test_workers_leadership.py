"""One leader per role, by the database's clock; nobody waits for a dead one longer than its lease."""

from __future__ import annotations

import asyncio

from holdfast.clock import SECOND
from holdfast.storage.ops.workers import workers
from holdfast.worker.maintenance.leader import LEASE, ROLES, Leader
from tests.patience import SOON

from .world import World

TEN = 10 * SECOND


def test_one_holds_a_role_and_renews_it_and_others_do_not_get_it(world: World) -> None:
    assert world.run(workers.lead, ["a", "b"], "one", TEN) == {"a", "b"}
    assert world.run(workers.lead, ["a", "b", "c"], "two", TEN) == {"c"}
    world.clock.advance(9)
    assert world.run(workers.lead, ["a"], "one", TEN) == {"a"}
    world.clock.advance(2)
    assert world.run(workers.lead, ["a", "b"], "two", TEN) == {"b"}


def test_a_lease_that_ran_out_is_free_for_whoever_comes_first(world: World) -> None:
    world.run(workers.lead, ["a"], "one", TEN)
    world.clock.advance(10)
    assert world.run(workers.lead, ["a"], "two", TEN) == {"a"}
    assert world.run(workers.lead, ["a"], "one", TEN) == set()


def test_a_role_is_free_at_once_when_its_leader_resigns(world: World) -> None:
    world.run(workers.lead, ["a", "b"], "one", TEN)
    assert world.run(workers.resign, "two") == set()
    assert world.run(workers.resign, "one") == {"a", "b"}
    assert world.run(workers.lead, ["a"], "two", TEN) == {"a"}


def test_a_clock_that_was_set_back_does_not_hold_a_role_for_ever(world: World) -> None:
    world.run(workers.lead, ["a"], "one", TEN)
    world.clock.step(-86_400)
    assert world.run(workers.open_roles, ["a"], "two", TEN) == ({"a"}, 0)
    assert world.run(workers.lead, ["a"], "two", TEN) == {"a"}


def test_who_follows_looks_again_when_the_first_lease_could_end(two_worlds: tuple[World, World]) -> None:
    first, second = two_worlds
    leading = Leader(first.store, lambda: "one", first.clock)
    following = Leader(second.store, lambda: "two", second.clock, random=lambda: 0.0)

    async def scene() -> None:
        assert await leading.run_once() is None
        assert await following.run_once() == LEASE
        first.clock.advance(4)
        assert await following.run_once() == LEASE - 4
        assert await leading.run_once() is None
        assert await following.run_once() == LEASE
        heard = asyncio.Event()
        hearing = asyncio.create_task(following.listen(heard.set))
        await asyncio.sleep(0)
        await leading.resign()
        async with asyncio.timeout(SOON):
            await heard.wait()
        hearing.cancel()
        assert await following.run_once() is None
        assert all(following.holds(role) for role in ROLES)

    asyncio.run(scene())


def test_a_dead_leader_is_replaced_within_fifteen_seconds(two_worlds: tuple[World, World]) -> None:
    first, second = two_worlds
    dying, heir = (Leader(w.store, lambda name=name: name, w.clock) for w, name in ((first, "one"), (second, "two")))

    async def scene() -> None:
        gains: list[str] = []
        heir.on_gain("schedules", lambda: gains.append("schedules"))
        await dying.run_once()
        await heir.run_once()
        assert all(dying.holds(role) for role in ROLES)
        assert not any(heir.holds(role) for role in ROLES)
        waited = 0.0
        while not heir.holds("schedules"):
            first.clock.advance(LEASE / 3)
            waited += LEASE / 3
            await heir.run_once()
            assert not (dying.holds("schedules") and heir.holds("schedules"))
        assert waited <= 15
        assert gains == ["schedules"]

    asyncio.run(scene())


def test_a_leader_that_resigns_is_replaced_at_the_next_look(two_worlds: tuple[World, World]) -> None:
    first, second = two_worlds
    leaving, heir = (Leader(w.store, lambda name=name: name, w.clock) for w, name in ((first, "one"), (second, "two")))

    async def scene() -> None:
        await leaving.run_once()
        await leaving.resign()
        assert not leaving.holds("schedules")
        await heir.run_once()
        assert heir.holds("schedules")

    asyncio.run(scene())
