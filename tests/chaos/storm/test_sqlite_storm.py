"""Workers and producers on one file are killed and frozen all the time; nothing is lost, and nothing late counts."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

import holdfast
from tests.chaos.dials import SEED, Figure, scaled

from .fleet import Fleet
from .nemesis import Nemesis
from .nursery import nursery
from .plan import Diary, Plan
from .verdict import judge

LOCK_PATIENCE = 0.06


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that can be: a kill takes nothing from the kernel, so a disk would only make it slower."""
    made = Path(tempfile.mkdtemp(prefix="holdfast-storm-"))
    yield made
    shutil.rmtree(made)


@pytest.mark.timeout(600)
def test_jobs_survive_kills_and_freezes_on_a_file(folder: Path) -> None:
    plan = Plan(kills=12, zombies=3, jobs=200, kills_per_second=5, workers=5, elders=2, frozen_at_once=3)
    _storm(folder, plan, "tests/chaos/storm -k on_a_file", lambda *_: None)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_thousands_of_jobs_survive_hundreds_of_kills_on_a_file(folder: Path, figure: Figure) -> None:
    plan = Plan(kills=scaled(510), zombies=scaled(102), jobs=scaled(8500))
    _storm(folder, plan, "-m proof tests/chaos/storm -k on_a_file", figure)


def _storm(folder: Path, plan: Plan, name: str, figure: Figure) -> None:
    dice, diary = Random(SEED), Diary(folder / "storm.log")
    ledger, store = folder / "ledger", str(folder / "jobs.db")
    ledger.touch()
    app = holdfast.App(store)
    app.migrate()
    with nursery(ledger, folder / "workers.log") as births:
        fleet = Fleet(births, app, [store], plan, dice, diary)
        nemesis = Nemesis(
            fleet, births, plan, dice, diary,
            ledger=ledger, store=lambda: store, is_blocked=_lock_probe(app.connect()),
        )  # fmt: skip
        judge(app, fleet, nemesis, plan, diary, folder, hint=f"PROOF_SEED={SEED} pytest {name}", figure=figure)
    app.close()


def _lock_probe(connection: sqlite3.Connection) -> Callable[[], bool]:
    """Whether nobody can write: somebody was frozen with the lock in hand."""
    connection.execute(f"pragma busy_timeout = {round(LOCK_PATIENCE * 1000)}")

    def is_blocked() -> bool:
        try:
            connection.execute("begin immediate")
            connection.execute("rollback")
        except sqlite3.OperationalError:
            return True
        return False

    return is_blocked
