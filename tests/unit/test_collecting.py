"""How often a worker process looks for cyclic garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from holdfast.runtime.running import collect_seldom


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_a_worker_process_looks_seldom() -> None:
    gc.set_threshold(700, 10, 10)
    collect_seldom()
    assert gc.get_threshold() == (10_000, 10, 10)


@pytest.mark.parametrize("chosen", [(0, 0, 0), (50_000, 5, 5)])
def test_what_the_program_chose_stays(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    collect_seldom()
    assert gc.get_threshold() == chosen
