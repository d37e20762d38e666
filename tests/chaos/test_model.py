"""Long random histories of everything at once: the store answers and stores what the model says, step for step.

A failure prints the steps of the shortest history that shows it, or the number of the history that did. `PROOF_SEED`
gives the same histories again, and `PROOF_SCALE` so many times as many of them.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.conftest import Ground
from tests.conformance.world import World

from .acting import wander
from .dials import SEED, Figure, scaled
from .machine import Machine

BACKENDS = ("memory", "file", "postgres")
MENDED = (24,)
"""Histories that once failed."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("backend", "histories"), [("memory", 20), ("file", 5), ("postgres", 4)])
def test_every_store_does_what_the_model_says(stores: Ground, backend: str, histories: int) -> None:
    follow(stores.open(backend), histories, 25)


@pytest.mark.parametrize("backend", BACKENDS)
def test_histories_that_once_failed_do_no_more(stores: Ground, backend: str) -> None:
    machine = beside(stores.open(backend))
    for history in MENDED:
        wander(machine, history, 120)


@pytest.mark.proof
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("backend", "histories", "steps"), [("memory", 200, 60), ("file", 100, 60), ("postgres", 80, 50)]
)
def test_every_store_does_what_the_model_says_for_long(
    stores: Ground, backend: str, histories: int, steps: int, figure: Figure
) -> None:
    figure(follow(stores.open(backend), scaled(histories), steps), f"steps on {backend}")


@pytest.mark.proof
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("backend", "histories"), [("memory", 60), ("file", 20), ("postgres", 10)])
def test_dice_find_nothing_that_the_model_does_not_say(
    stores: Ground, backend: str, histories: int, figure: Figure
) -> None:
    machine, began, count = beside(stores.open(backend)), time.monotonic(), scaled(histories)
    for history in range(SEED, SEED + count):
        wander(machine, history, 200)
    print(f"{count * 200} steps in {time.monotonic() - began:.1f} s; PROOF_SEED={SEED} repeats this run")
    figure(count * 200, f"steps by dice on {backend}")


def beside(world: World) -> type[Machine]:
    return type("Beside", (Machine,), {"world": world})


def follow(world: World, histories: int, steps: int) -> int:
    """So many histories, of so many steps on average, more or less; how many steps it was in all."""
    began, machine = time.monotonic(), beside(world)
    print(f"PROOF_SEED={SEED} repeats this run")
    run_state_machine_as_test(
        seed(SEED)(machine),
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps * 4 // 3,
            deadline=None,
            database=None,
            print_blob=True,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"{histories} histories, {machine.taken} steps in {time.monotonic() - began:.1f} s")
    return machine.taken
