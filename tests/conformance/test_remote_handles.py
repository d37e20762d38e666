"""Handles of leased jobs: of this store, of this version, whole, and no proof of anything by themselves."""

from __future__ import annotations

import random
from typing import Any

import pytest

from holdfast import App
from holdfast.errors import (
    BadHandle,
    LeaseLost,
)  # fmt: skip
from holdfast.model.jobs import JobState
from holdfast.model.remote import Caller, Done  # fmt: skip
from holdfast.rules.remote import Lease, Origin, write
from holdfast.storage.ops import remote
from holdfast.storage.ops.signals import keys

from .lease_kit import Elsewhere
from .world import World


def test_a_handle_of_another_store_is_refused_and_says_where_to_go(two_worlds: tuple[World, World]) -> None:
    same, twin = (Elsewhere(world) for world in two_worlds)
    _, job = same.running()
    other = App(":memory:")
    other.migrate()
    with pytest.raises(BadHandle, match="another store") as refused:
        other.remote.finish(job.handle, Done())
    assert (refused.value.code, refused.value.why) == ("bad_handle", "foreign")
    other.close()
    # Another process on the same database is no other store.
    assert twin.remote.finish(job.handle, Done()).state == "succeeded"


def test_a_handle_of_another_version_says_so(here: Elsewhere) -> None:
    _, job = here.running()
    with pytest.raises(BadHandle, match="hf3") as refused:
        here.remote.finish(job.handle.replace("hf2", "hf3", 1), Done())
    assert refused.value.why == "version"


def test_a_damaged_handle_is_refused_whatever_is_wrong_with_it(each_store: World) -> None:
    here = Elsewhere(each_store)
    _, job = here.running()
    dice, letters = random.Random(7), "abcXYZ019-_.=+/ \n\x00é"
    before = each_store.dump()
    texts: list[Any] = [
        "",
        ".",
        "hf2",
        "hf2....",
        "hf2.a.b.c.d",
        job.handle * 2,
        job.handle + "=",
        "x" * 100_000,
        None,
        7,
    ]
    texts += [job.handle[:n] for n in range(0, len(job.handle), 3)]
    for _ in range(400):
        place = dice.randrange(len(job.handle))
        texts.append(job.handle[:place] + dice.choice(letters) + job.handle[place + dice.randint(0, 1) :])
    for text in texts:
        if text == job.handle:
            continue
        with pytest.raises(BadHandle):
            here.remote.finish(text, Done())
    assert each_store.dump() == before
    assert here.remote.finish(job.handle, Done()).state == "succeeded"


def test_a_handle_that_somebody_made_up_does_nothing(here: Elsewhere) -> None:
    worker, job = here.running()
    origin = Origin(here.world.backend, here.world.run(remote.identity), here.world.run(keys.store_secret))
    for made, error in (
        (Lease(job.id, 99, worker, 0, 1), LeaseLost), (Lease("nothing", 1, worker, 0, 1), LeaseLost),
        (Lease(job.id, 1, "0" * 32, 0, 1), LeaseLost), (Lease("a\x00b", 1, worker, 0, 1), BadHandle),
        (Lease(job.id, -1, worker, 0, 1), BadHandle), (Lease("x" * 200, 1, worker, 0, 1), BadHandle),
        (Lease(job.id, 2**60, worker, 0, 1), BadHandle),
    ):  # fmt: skip
        with pytest.raises(error):
            here.remote.finish(write(origin, made), Done())
    assert here.job(job.id).state is JobState.RUNNING


def test_a_handle_without_the_key_of_the_store_is_no_handle(here: Elsewhere) -> None:
    worker, job = here.running()
    guessed = Origin(here.world.backend, here.world.run(remote.identity), b"guess")
    with pytest.raises(BadHandle) as refused:
        here.remote.finish(write(guessed, Lease(job.id, 1, worker, 0, 1)), Done())
    assert refused.value.why == "corrupt"
    assert here.job(job.id).state is JobState.RUNNING


def test_a_handle_is_good_for_the_holder_of_its_worker_alone(here: Elsewhere) -> None:
    _, job = here.running()
    with pytest.raises(BadHandle):
        here.app.remote._of(Caller(holder="another", actor="token:other")).finish(job.handle, Done())
    assert here.remote.finish(job.handle, Done()).state == "succeeded"


def test_the_name_and_the_secret_of_a_store_are_made_once(two_worlds: tuple[World, World]) -> None:
    assert len({world.run(remote.identity) for world in two_worlds}) == 1
    assert len({world.run(keys.store_secret) for world in two_worlds}) == 1
