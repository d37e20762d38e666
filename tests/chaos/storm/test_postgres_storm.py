"""On Postgres the way to the server is cut and the server crashes as well; nothing is lost, and nothing late counts."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import holdfast
from tests.chaos.dials import SEED, Figure, scaled
from tests.postgres_server import private_server, url_of

from .fleet import Fleet
from .nemesis import Nemesis
from .nursery import nursery
from .outages import Outages, proxy
from .plan import Diary, Plan
from .verdict import judge

pytestmark = pytest.mark.thorough


@pytest.mark.timeout(600)
def test_jobs_survive_kills_and_freezes_and_a_crash_of_the_server(tmp_path: Path) -> None:
    plan = Plan(
        kills=10, zombies=2, jobs=150, restarts=1, partitions=2, terminations=1,
        kills_per_second=4, workers=5, elders=2, frozen_at_once=2, lines=2,
    )  # fmt: skip
    _storm(tmp_path, plan, "tests/chaos/storm -k of_the_server", lambda *_: None)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_thousands_of_jobs_survive_hundreds_of_kills_and_crashes_of_the_server(tmp_path: Path, figure: Figure) -> None:
    plan = Plan(
        kills=scaled(310), zombies=scaled(62), jobs=scaled(5300), restarts=scaled(4), partitions=scaled(10),
        terminations=scaled(10), kills_per_second=7, workers=9, frozen_at_once=4, lines=3,
    )  # fmt: skip
    _storm(tmp_path, plan, "-m proof tests/chaos/storm -k of_the_server", figure)


def _storm(folder: Path, plan: Plan, name: str, figure: Figure) -> None:
    dice, diary, ledger = Random(SEED), Diary(folder / "storm.log"), folder / "ledger"
    ledger.touch()
    with private_server() as server, proxy(server, plan.lines, SEED) as lines:
        app = holdfast.App(url_of(server.dsn))
        app.migrate()
        with nursery(ledger, folder / "workers.log") as births:
            fleet = Fleet(births, app, lines.urls, plan, dice, diary)
            outages = Outages(server, lines, plan, dice, diary)
            nemesis = Nemesis(
                fleet, births, plan, dice, diary,
                ledger=ledger, store=lambda: dice.choice(lines.urls), besides=outages,
            )  # fmt: skip
            judge(
                app, fleet, nemesis, plan, diary, folder,
                hint=f"PROOF_SEED={SEED} pytest {name}", figure=figure, heal=outages.heal,
            )  # fmt: skip
        app.close()
