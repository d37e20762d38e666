"""The real engine on a clock that is a number, with everything that goes wrong drawn from a seed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.chaos.dials import SEED, Figure, scaled

from .past import PAST
from .world import World, simulated

_SMALL = 12
# In the last two, suspects of a batch's route were claimed by nobody.
_WITH_BATCHES = (*range(6), 117, 134)
_SEEDS = 1_000
_TOLD = ("crashes", "pauses", "errors", "stalls", "blocks", "stops", "steps")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What workers log of a thousand disasters would take more time than the disasters."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def live(seed: int, batches: int = 0) -> World:
    """One world from its beginning to its end."""
    hint = f'PROOF_SEED={seed} pytest -m proof tests/chaos/simulation -k "one_seed"'
    with simulated(seed) as world:
        world.live(hint, batches)
    return world


def test_every_promise_holds_in_a_few_simulated_clusters() -> None:
    for seed in range(_SMALL):
        live(seed)


def test_every_promise_holds_for_each_job_of_a_batch() -> None:
    for seed in _WITH_BATCHES:
        live(seed, batches=15)


@pytest.mark.parametrize("seed", PAST)
def test_what_once_went_wrong_does_not_again(seed: int) -> None:
    live(seed)


def test_a_seed_repeats_its_world_to_the_last_call() -> None:
    first, second = live(7), live(7)
    assert first.trace == second.trace
    assert first.ledger == second.ledger


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_one_seed() -> None:
    """To repeat one that failed."""
    live(SEED)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_every_promise_holds_in_many_simulated_clusters(figure: Figure) -> None:
    counts: Counter[str] = Counter()
    seeds = range(SEED * 1_000_000, SEED * 1_000_000 + scaled(_SEEDS))
    for seed in seeds:
        counts += live(seed).nemesis.counts
    figure(len(seeds), "seeds")
    for name in _TOLD:
        figure(counts[name], f"simulated {name}")
