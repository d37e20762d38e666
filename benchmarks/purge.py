"""How much a purge slows the claims beside it: `python -m benchmarks.purge [--rows N] [--store sqlite|postgres]`.

A full drain by a real worker, first alone and then while another process's pruner deletes old jobs. What is measured is
the time of each turn in which the worker claims.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import holdfast
from holdfast.clock import SECOND
from holdfast.storage.port import Op, Store, Tx
from holdfast.storage.statements import Statement
from holdfast.worker.maintenance.pruner import Pruner
from holdfast.worker.settings import WorkerSettings
from holdfast.worker.worker import Worker
from tools.fill_jobs import inserts

from .raw_postgres import PostgresBench
from .stores import server

_OLD = {
    "id": "'old' || n", "task": "'work'", "queue": "'default'", "route": "1", "state": "'succeeded'", "rank": "0",
    "not_before": "0", "payload": """'{"args":[[1,2,3]]}'""", "created_at": "0", "finished_at": ":at + n",
    "result": "'\"a small result\"'",
}  # fmt: skip
_NUMBERS = "with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < :rows) | numbers"


def main() -> None:
    options = _options()
    if options.prune:
        asyncio.run(_prune(options.prune))
        return
    if options.store in ("both", "sqlite"):
        with tempfile.TemporaryDirectory(prefix="holdfast-purge-") as folder:
            _report("SQLite", str(Path(folder) / "jobs.db"), options)
    if options.store in ("both", "postgres"):
        with server() as dsn, PostgresBench(dsn).fresh() as url:
            _report("Postgres", url, options)


def _report(name: str, url: str, options: argparse.Namespace) -> None:
    app = holdfast.App(url)
    app.migrate()
    alone = _claims(app, options.jobs)
    app.open().write(Op(lambda tx: _fill(tx, options.rows)))
    pruner = subprocess.Popen([sys.executable, "-m", "benchmarks.purge", "--prune", url])
    beside: list[float] = []
    while pruner.poll() is None:
        beside += _claims(app, options.jobs)
    app.close()
    slower = _p99(beside) / _p99(alone)
    print(
        f"{name}: claims p99 {_p99(alone) * 1e3:.1f} ms alone, {_p99(beside) * 1e3:.1f} ms while {options.rows:,} jobs"
        f" are purged: {slower:.1f} times (must be below 5)"
    )


def _claims(app: holdfast.App, jobs: int) -> list[float]:
    """Drain; the seconds of each turn that claimed."""
    return asyncio.run(_drain(app, jobs))


async def _drain(app: holdfast.App, jobs: int) -> list[float]:
    if "work" not in app.tasks:

        @app.task
        async def work(values: list[int]) -> None:
            pass

    task = app.tasks["work"]
    for _ in range(jobs // 1_000):
        await app.aenqueue_many([task.job([1, 2, 3]) for _ in range(1_000)])
    store = _Timed(app.open())
    settings = WorkerSettings(queues=("default",), concurrency=50, prune_interval=0)
    worker = Worker(store, app.tasks, settings, app=app)  # type: ignore[arg-type]
    await worker.start()
    while any(count.state in ("ready", "running") for count in await app.jobs.acounts()):
        await asyncio.sleep(0.05)
    await worker.stop()
    return store.seconds


class _Timed:
    """A store that times what has a patience of its own: the worker's turns."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seconds: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def awrite(self, op: Op[Any]) -> Any:
        start = time.perf_counter()
        answer = await self._store.awrite(op)
        if op.patience is not None:
            self.seconds.append(time.perf_counter() - start)
        return answer


async def _prune(url: str) -> None:
    app = holdfast.App(url)
    start = time.perf_counter()
    await Pruner(app.open(), WorkerSettings(), lambda: True, asyncio.sleep).run_once()
    print(f"purged in {time.perf_counter() - start:.1f} s")
    app.close()


async def _fill(tx: Tx, rows: int) -> None:
    at = time.time_ns() // 1_000 - 60 * 86_400 * SECOND
    for text in inserts(_OLD, _NUMBERS, ended=True):
        postgres = text.replace(":at", ":at::bigint").replace(":rows", ":rows::bigint") + " returning 0"
        await tx.one(Statement("fill", text, postgres), at=at, rows=rows)


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.purge", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--jobs", type=int, default=5_000, help="jobs in each drain")
    parser.add_argument("--store", choices=["both", "sqlite", "postgres"], default="both")
    parser.add_argument("--prune", metavar="URL", help="only prune that store; what the purging process runs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
