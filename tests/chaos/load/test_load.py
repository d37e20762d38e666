"""500 jobs a second for ten minutes, with a kill every few seconds: nothing is lost, and nothing grows.

`PROOF_MINUTES` says for how long. A table of slopes is printed; each has a bound, and beyond it the test fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import psycopg
import pytest

import holdfast
from tests.chaos.check import require
from tests.chaos.dials import SEED, Figure
from tests.chaos.facts import read_facts
from tests.chaos.ledger import read
from tests.chaos.storm.nursery import ROOT, Nursery, nursery
from tests.postgres_server import private_server, url_of

from .crew import CONCURRENCY, Crew
from .gauges import MB, Gauges, LogSize, Tally
from .slopes import HEADER, Bound, Trend, trend

MINUTES = float(os.environ.get("PROOF_MINUTES", "10"))
SECONDS = MINUTES * 60
RATE = 500
EVERY = 5.0
WARM_UP = min(150.0, SECONDS * 0.45)
"""Until then the store fills: what has ended stays for a minute and a half, until its minute was counted."""
_PATIENCE = 120.0

# The error of a slope falls with the time measured to the power of 1.5; seven and a half minutes are what ten leave.
_SHORT = max(1.0, (450.0 / (SECONDS - WARM_UP)) ** 1.5)
BOUNDS = {
    # Each worker runs some 125 jobs a second: 50 bytes of each that stayed would be 22 MB in an hour. The samples of a
    # process stray by a third of a megabyte, which is a slope of 1 to 3 MB in an hour that means nothing.
    "memory": Bound(per_hour=24.0 * _SHORT),
    # Connections come and go by ones; one that is lost with every kill would be 900 in an hour.
    "handles": Bound(per_hour=30.0 * _SHORT),
    "log": Bound(share=1.0, besides=8.0, most=64.0),
    "database": Bound(share=0.15 * _SHORT, besides=4.0),
    # A saw: they rise until vacuum has come by.
    "dead rows": Bound(share=1.0 * _SHORT, besides=20_000.0),
    "claim p99": Bound(share=0.5 * _SHORT, besides=25.0),
    "enqueue to start": Bound(share=0.5 * _SHORT, besides=25.0),
}


@pytest.fixture
def ledger() -> Iterator[Path]:
    """In memory: it is no part of what is measured."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-load-"))
    (folder / "ledger").touch()
    yield folder / "ledger"
    shutil.rmtree(folder)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_load_and_kills_for_minutes_leave_a_file_flat(tmp_path: Path, ledger: Path, figure: Figure) -> None:
    _load(str(tmp_path / "jobs.db"), tmp_path, ledger, None, figure)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_load_and_kills_for_minutes_leave_postgres_flat(tmp_path: Path, ledger: Path, figure: Figure) -> None:
    # Durable as in production. Vacuum looks more often than once in a minute, which would be a tenth of the test.
    settings = {"fsync": "on", "autovacuum_naptime": "10s", "max_wal_size": "256MB"}
    with private_server(**settings) as server, closing(psycopg.connect(server.dsn, autocommit=True)) as connection:

        def log_size() -> float:
            return float(connection.execute("select sum(size) from pg_ls_waldir()").fetchone()[0]) / MB  # type: ignore[index]

        _load(url_of(server.dsn), tmp_path, ledger, log_size, figure)


def _load(store: str, folder: Path, ledger: Path, log_size: LogSize | None, figure: Figure) -> None:
    app, tally = holdfast.App(store), Tally(ledger)
    app.migrate()
    gauges = Gauges(app, tally, log_size)
    with nursery(ledger, folder / "workers.log", "tests.chaos.load.work") as births:
        crew, sent = _work(births, store, ledger, gauges)
        _drain(tally)
        assert crew.stop() == [0] * 4, (folder / "workers.log").read_text()[-4000:]
    backend = app.open().backend
    print(f"\n{backend}: {sent} jobs in {SECONDS:.0f} s, {crew.kills} kills, {_repeated(tally)} starts repeated")
    trends = _trends(gauges, backend)
    print("\n".join([HEADER, *map(str, trends)]))
    _judge(app, tally, crew, ledger)
    app.close()
    figure(sent, f"jobs under load on {backend}")
    figure(crew.kills, f"kills under load on {backend}")
    assert sent >= 0.99 * RATE * SECONDS, f"{sent} jobs were enqueued in {SECONDS:.0f} s"
    assert all(one.is_flat for one in trends), "\n".join(str(one) for one in trends if not one.is_flat)


def _work(births: Nursery, store: str, ledger: Path, gauges: Gauges) -> tuple[Crew, int]:
    """Until the producer has done its time; the crew, and how many jobs there were."""
    crew = Crew(births, store, Random(SEED))
    command = [sys.executable, "-m", "tests.chaos.load.producer", store, str(RATE), str(SECONDS)]
    own = {"STORM_LEDGER": str(ledger), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    began, sample = time.monotonic(), EVERY
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | own, stdout=subprocess.PIPE, text=True) as producer:
        try:
            while producer.poll() is None:
                crew.strike()
                elapsed = time.monotonic() - began
                if sample <= elapsed < SECONDS:
                    gauges.read(elapsed, {**crew.watched(), "the producer": producer.pid})
                    sample += EVERY
                time.sleep(0.1)
            assert producer.stdout is not None
            return crew, int(producer.stdout.read())
        finally:
            producer.kill()


def _drain(tally: Tally) -> None:
    deadline = time.monotonic() + _PATIENCE
    tally.read()
    while not tally.is_done:
        left = len(tally.acknowledged - tally.done)
        assert time.monotonic() < deadline, f"{left} acknowledged jobs were not run in {_PATIENCE:.0f} s"
        time.sleep(0.2)
        tally.read()


def _trends(gauges: Gauges, backend: str) -> list[Trend]:
    bounds = BOUNDS | ({"log": Bound(most=512.0)} if backend == "postgres" else {})
    found = []
    for (name, unit), samples in gauges.series.items():
        bound = next(bound for prefix, bound in bounds.items() if name.startswith(prefix))
        if warm := [sample for sample in samples if sample[0] >= WARM_UP]:
            found.append(trend(name, unit, warm, bound))
    return found


def _repeated(tally: Tally) -> int:
    return sum(tally.starts.values()) - len(tally.starts)


def _judge(app: holdfast.App, tally: Tally, crew: Crew, ledger: Path) -> None:
    """What is no more in the store was run and pruned; what is still there is as it should be."""
    assert _repeated(tally) <= crew.kills * CONCURRENCY
    facts = read_facts(app.open())
    lines = tuple(line for line in read(ledger) if line.job in facts.jobs)
    require(read_facts(app.open(), lines, forgotten=frozenset(tally.done)), drained=True, hint=f"PROOF_SEED={SEED}")
    tally.close()
