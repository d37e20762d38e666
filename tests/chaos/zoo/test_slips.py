"""Small slips, drawn by dice, in the modules that decide: nine of ten must be noticed by the tests of those modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.postgres_server import running_server

from ..dials import SCALE, SEED, Figure, scaled
from .build import build, run
from .mutant import SOURCE
from .slips import KILLERS, Slip, some_slips

COUNT = scaled(20) if SCALE > 1 else 0
"""A long run's work: a slip takes some seconds, and that some change nothing cannot be helped."""


@pytest.fixture
def server() -> Iterator[str]:
    with running_server() as dsn:
        yield dsn


@pytest.mark.parametrize("module", KILLERS)
def test_each_slip_changes_its_module_and_leaves_a_program(module: str) -> None:
    before = ast.unparse(ast.parse((SOURCE / "rules" / f"{module}.py").read_text()))
    places = [slip for slip in some_slips(SEED, 10_000) if slip.module == module]
    assert len({_compiled(slip) for slip in places} - {before}) > len(places) * 0.9


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_nine_of_ten_slips_are_noticed(server: str, figure: Figure) -> None:
    survivors = [said for slip in some_slips(SEED, COUNT) if (said := _survives(slip, server))]
    print(*survivors, f"PROOF_SEED={SEED} PROOF_SCALE={SCALE:g} repeats this run", sep="\n")
    assert len(survivors) <= COUNT / 10, survivors
    if COUNT:
        figure(COUNT - len(survivors), "slips caught")


def _survives(slip: Slip, server: str) -> str | None:
    said, text = slip.made()
    with build({slip.file: text}) as folder:
        done = run(folder, ["-x", *KILLERS[slip.module]], server)
    return said if done.returncode == 0 else None


def _compiled(slip: Slip) -> str:
    _, text = slip.made()
    compile(text, slip.file, "exec")
    return text
