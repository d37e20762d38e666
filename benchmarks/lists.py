"""Lists and counts over a million finished jobs: `python -m benchmarks.lists [--rows N] [--store sqlite|postgres]`."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import holdfast
from holdfast.model import JobFilter
from holdfast.storage.ops.jobs import counting
from holdfast.storage.port import Op, Tx
from holdfast.storage.statements import Statement
from tools.fill_jobs import inserts

from .raw_postgres import PostgresBench
from .stores import server

_NUMBERS = "with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < :rows) | numbers"
_JOB = {
    "id": "'job' || (10000000 + n)", "task": "'task' || (n % 20)", "queue": "'queue' || (n % 5)", "route": "1",
    "rank": "0", "not_before": "0", "created_at": ":at",
}  # fmt: skip
_READY = _JOB | {"state": "'ready'", "due": "1"}
_ENDED = _JOB | {
    "state": "case when n % 100 < 94 then 'succeeded' when n % 100 < 98 then 'failed' else 'cancelled' end",
    "finished_at": ":at + n",
}
_FILTERS = [
    JobFilter(), JobFilter(state="succeeded"), JobFilter(state="failed"), JobFilter(state="ready"),
    JobFilter(state="running"), JobFilter(queue="queue3"), JobFilter(task="task7"), JobFilter(task="none"),
    JobFilter(queue="queue2", task="task7"), JobFilter(state="failed", queue="queue1"),
    JobFilter(state="failed", task="task1"), JobFilter(state="succeeded", before="job10500000"),
]  # fmt: skip
_MUST = 0.050


def main() -> None:
    options = _options()
    if options.store in ("both", "sqlite"):
        with tempfile.TemporaryDirectory(prefix="holdfast-lists-") as folder:
            _report("SQLite", str(Path(folder) / "jobs.db"), options.rows)
    if options.store in ("both", "postgres"):
        with server() as dsn, PostgresBench(dsn).fresh() as url:
            _report("Postgres", url, options.rows)


def _report(name: str, url: str, rows: int) -> None:
    app = holdfast.App(url)
    app.migrate()
    store = app.open()
    store.write(Op(lambda tx: _fill(tx, rows)))
    # As the server itself does by and by.
    store.write(Op(lambda tx: tx.one(Statement("analyze", "select 1", "analyze"))))
    tallies = store.read(Op(lambda tx: counting.measure(tx, recount=True)))
    store.write(Op(lambda tx: counting.write_tallies(tx, tallies)))
    for wanted in _FILTERS:
        given = {f: v for f in ("state", "queue", "task", "before") if (v := getattr(wanted, f)) is not None}
        _time(f"{name}: list {given}", lambda wanted=wanted: app.jobs.find(wanted))  # type: ignore[misc]
    _time(f"{name}: counts", app.jobs.counts)
    _time(f"{name}: queues", app.queues.list)
    app.close()


def _time(name: str, ask: Callable[[], object], times: int = 9) -> None:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        ask()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(f"{name:60} {median * 1e3:7.1f} ms{'' if median < _MUST else '   OVER 50 ms'}", flush=True)


async def _fill(tx: Tx, rows: int) -> None:
    at = time.time_ns() // 1_000 - 10**11
    for text in (
        *inserts(_READY, _NUMBERS + " where n % 1000 = 0", ended=False),
        *inserts(_ENDED, _NUMBERS + " where n % 1000 > 0", ended=True),
    ):
        postgres = text.replace(":at", ":at::bigint").replace(":rows", ":rows::bigint") + " returning 0"
        await tx.one(Statement("fill", text, postgres), rows=rows, at=at)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lists", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--store", choices=["both", "sqlite", "postgres"], default="both")
    return parser.parse_args()


if __name__ == "__main__":
    main()
