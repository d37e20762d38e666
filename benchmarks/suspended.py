"""What many suspended jobs cost: the drain of a queue beside them, and how soon one of them hears a signal.

`python -m benchmarks.suspended [--suspended N] [--drained N] [--store sqlite|postgres]`
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

import holdfast

from . import stores
from .measure import Latency
from .raw_postgres import PostgresBench
from .raw_sqlite import SqliteBench
from .stores import Bench

CONCURRENCY: Final = 100
BATCH: Final = 10_000
SAMPLES: Final = 200
RUNS: Final = 6


class Waiting:
    """An app whose jobs wait, and others that do nothing."""

    def __init__(self, url: str) -> None:
        self.app: Final = holdfast.App(url)
        self.heard: Final[asyncio.Queue[float]] = asyncio.Queue()

        @self.app.task(queue="waiting")
        async def waits(ctx: holdfast.Context) -> None:
            await ctx.wait_for("go", timeout=86_400)
            self.heard.put_nowait(time.perf_counter())

        @self.app.task(queue="busy")
        async def nothing() -> None: ...

        self.waits: Final[Any] = waits
        self.nothing: Final[Any] = nothing

    async def suspend(self, count: int) -> list[str]:
        """Let so many jobs run until they wait; their ids."""
        ids: list[str] = []
        async with self.app.worker(concurrency=CONCURRENCY, queues=("waiting",)):
            for start in range(0, count, BATCH):
                n = min(BATCH, count - start)
                ids += [job.id for job in await self.app.aenqueue_many([self.waits.job() for _ in range(n)])]
            while (await self._count("waiting", "suspended")) < count:
                await asyncio.sleep(0.5)
        return ids

    async def drain(self, count: int) -> float:
        """Jobs per second of a full queue, in a worker that serves both."""
        for start in range(0, count, BATCH):
            await self.app.aenqueue_many([self.nothing.job() for _ in range(min(BATCH, count - start))])
        last = await self.nothing.options(priority=-1).aenqueue()
        began = time.perf_counter()
        async with self.app.worker(concurrency=CONCURRENCY, queues=("busy", "waiting")):
            await last.aresult(600)
        return count / (time.perf_counter() - began)

    async def wait_for_notice(self, ids: list[str], samples: int) -> Latency:
        """From the call of `asignal` until the handler has gone on."""
        delays: list[float] = []
        async with self.app.worker(concurrency=CONCURRENCY, queues=("busy", "waiting")):
            for job_id in random.sample(ids, samples + 5):
                await asyncio.sleep(random.uniform(0.01, 0.04))
                began = time.perf_counter()
                await self.app.asignal(job_id, "go")
                delays.append(await self.heard.get() - began)
        return Latency.of(delays[5:])

    async def _count(self, queue: str, label: str) -> int:
        counts = await self.app.jobs.acounts()
        return sum(found.jobs for found in counts if found.queue == queue and found.state == label)


def measure(bench: Bench, suspended: int, drained: int) -> dict[str, float]:
    """Rates without and with jobs that wait, in turn, and the delays of signals in milliseconds."""
    with bench.fresh() as empty, bench.fresh() as full:
        alone, beside = Waiting(empty), Waiting(full)
        began = time.perf_counter()
        ids = asyncio.run(beside.suspend(suspended))
        took = time.perf_counter() - began
        rates = [_pair(bench, alone, beside, drained, swapped=n % 2 == 1) for n in range(RUNS)]
        heard = asyncio.run(beside.hear(ids, SAMPLES))
        alone.app.close()
        beside.app.close()
    ratio = statistics.median(with_them / without for without, with_them in rates)
    return {
        "suspended per second": suspended / took,
        "drained per second alone": statistics.median(rate for rate, _ in rates),
        "drained per second beside them": statistics.median(rate for _, rate in rates),
        "ratio": ratio,
        "signal to resumption, p50 ms": heard.p50,
        "signal to resumption, p99 ms": heard.p99,
    }


def _pair(bench: Bench, alone: Waiting, beside: Waiting, drained: int, *, swapped: bool) -> tuple[float, float]:
    """The rates of both. Each goes first as often: a server still tidies up after the one before."""
    rates: dict[Waiting, float] = {}
    for waiting in (beside, alone) if swapped else (alone, beside):
        _tidy(bench, waiting.app.config.store)
        rates[waiting] = asyncio.run(waiting.drain(drained))
    return rates[alone], rates[beside]


def _tidy(bench: Bench, url: str) -> None:
    """What a server does by and by: the measurement is not of the vacuum after a hundred thousand suspensions."""
    bench.analyse(url)
    if url.startswith("postgres"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("vacuum")
            connection.execute("checkpoint")


def main() -> None:
    options = _options()
    for bench in _benches(options.store):
        print(bench.name, f"{options.suspended:,} suspended jobs")
        for name, value in measure(bench, options.suspended, options.drained).items():
            print(f"  {name:32} {value:12,.2f}")


@contextmanager
def _postgres() -> Iterator[Bench]:
    with stores.server() as dsn:
        yield PostgresBench(dsn)


def _benches(which: str) -> Iterator[Bench]:
    if which in ("both", "sqlite"):
        with stores.folder() as folder:
            yield SqliteBench(folder)
    if which in ("both", "postgres"):
        with _postgres() as bench:
            yield bench


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suspended", type=int, default=100_000)
    parser.add_argument("--drained", type=int, default=20_000)
    parser.add_argument("--store", choices=["both", "sqlite", "postgres"], default="both")
    return parser.parse_args()


if __name__ == "__main__":
    main()
