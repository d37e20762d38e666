"""Actors in every order, a transaction at a time: whoever comes first, what was acknowledged stands, and all ends."""

from __future__ import annotations

import time
from math import factorial, prod

import pytest

from tests.conformance.conftest import Ground

from .acts import Scene
from .dials import Figure, scaled
from .orders import Walk
from .scenes import A_SIGNAL, PAIRS, THE_GREAT_ONE, TRIPLES, TWO_ENDS, meetings
from .schedules import play

MEETINGS = [*PAIRS, *(pair for scene in (THE_GREAT_ONE, *TRIPLES) for pair in meetings(scene))]


def orders_of(scene: Scene) -> int:
    counts = [len(actor) for actor in scene.actors]
    return factorial(sum(counts)) // prod(map(factorial, counts))


@pytest.mark.parametrize("scene", [*PAIRS, *TRIPLES[:2]], ids=lambda scene: scene.name)
def test_in_every_order_of_the_actors_the_promises_hold(scene: Scene) -> None:
    assert Walk(scene).run().orders == orders_of(scene)


@pytest.mark.proof
@pytest.mark.parametrize("scene", TRIPLES[2:], ids=lambda scene: scene.name)
def test_in_every_order_of_three_actors_the_promises_hold(scene: Scene) -> None:
    assert Walk(scene).run().orders == orders_of(scene)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_in_every_order_of_twelve_transactions_the_promises_hold(figure: Figure) -> None:
    began = time.monotonic()
    walk = Walk(THE_GREAT_ONE).run()
    print(f"{walk.orders} orders, {walk.acts} transactions, {len(walk.seen)} states, {time.monotonic() - began:.1f} s")
    assert walk.orders == orders_of(THE_GREAT_ONE) == 34_650
    figure(walk.orders, "orders on SQLite")


def test_on_postgres_the_promises_hold_whoever_waits_for_whom(stores: Ground) -> None:
    place = stores.place("postgres")
    play(stores.join(place, "postgres"), place, MEETINGS[::3], range(1))


@pytest.mark.parametrize("scene", [A_SIGNAL, TWO_ENDS], ids=lambda scene: scene.name)
def test_on_postgres_nobody_is_left_waiting_however_close_two_come(stores: Ground, scene: Scene) -> None:
    place = stores.place("postgres")
    play(stores.join(place, "postgres"), place, [scene], range(8))


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_on_postgres_the_promises_hold_in_hundreds_of_schedules(stores: Ground, figure: Figure) -> None:
    place, began = stores.place("postgres"), time.monotonic()
    plays = play(stores.join(place, "postgres"), place, MEETINGS, range(2, 2 + scaled(10)))
    count, waits = len(plays) * scaled(10), sum(one.waits for one in plays)
    print(f"{count} schedules, {waits} waits for locks, {time.monotonic() - began:.1f} s")
    assert waits > 0
    figure(count, "schedules on Postgres")
