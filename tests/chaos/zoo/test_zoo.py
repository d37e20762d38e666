"""Tests of the tests: bugs that other queues once shipped, each put into a copy of the package; a suite must notice it.

One that nobody notices is a hole in the tests. One whose text is no longer in the source must be told anew.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.postgres_server import running_server

from ..dials import Figure
from .build import build, caught_by, run
from .cages import MUTANTS, SUITES
from .mutant import SOURCE, Mutant
from .table import Table

AT_ONCE = [mutant for mutant in MUTANTS if mutant.name in ("finish without the epoch", "a step without the lease")]
"""What `make test-all` tries: the least that shows that mutants are still built and caught."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """One for all mutants."""
    with running_server() as dsn:
        yield dsn


def test_mutants_have_names_of_their_own() -> None:
    assert [name for name, n in Counter(mutant.name for mutant in MUTANTS).items() if n > 1] == []


def test_each_mutant_still_fits_into_the_source() -> None:
    assert [wrong for mutant in MUTANTS if (wrong := _misfit(mutant))] == []


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_every_suite_of_the_zoo_is_still_there() -> None:
    done = run(SOURCE.parent, ["--collect-only", *SUITES])
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", AT_ONCE, ids=lambda mutant: mutant.name)
def test_a_bug_in_the_copy_is_noticed(mutant: Mutant) -> None:
    with build(mutant.texts()) as folder:
        assert caught_by(folder, mutant.suites) is not None


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_a_copy_without_a_bug_passes_every_suite_of_the_zoo(server: str) -> None:
    with build({}) as folder:
        assert caught_by(folder, SUITES, server) is None


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_that_was_shipped_elsewhere_is_noticed(
    mutant: Mutant, server: str, figure: Figure, record_property: Table.Note
) -> None:
    began = time.monotonic()
    with build(mutant.texts()) as folder:
        caught = caught_by(folder, mutant.suites, server)
    assert caught is not None, f"nobody notices {mutant.name!r}: {mutant.harm}"
    Table.add(mutant.name, caught.test, time.monotonic() - began)
    record_property("caught by", caught.test)
    figure(1, "mutants caught")


def _misfit(mutant: Mutant) -> str | None:
    try:
        mutant.texts()
    except (AssertionError, FileNotFoundError) as wrong:
        return f"{mutant.name}: {wrong}"
    return None
