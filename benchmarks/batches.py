"""How fast one worker runs jobs in batches, beside the same jobs one by one: `python -m benchmarks.batches`.

Both take turns in one run, so that the machine is the same for both; the ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from statistics import median
from typing import Any, Final

import holdfast

from .raw_postgres import PostgresBench
from .raw_sqlite import SqliteBench
from .stores import Bench, folder, server

QUEUE: Final = "batches"
BATCH: Final = 100
_BETWEEN_LOOKS: Final = 0.02
_CHUNK: Final = 5_000


def drained(bench: Bench, count: int, *, batched: bool, seconds: float) -> float:
    """Jobs per second of a worker with 20 slots, whose handler waits for `seconds` in each call."""
    with bench.fresh() as url:
        app, task = _app(url, batched, seconds)
        try:
            app.queues.pause(QUEUE)
            for first in range(0, count, _CHUNK):
                app.enqueue_many([task.job(n) for n in range(first, min(first + _CHUNK, count))])
            with app.worker(queues=[QUEUE]):
                start = time.perf_counter()
                app.queues.resume(QUEUE)
                bench.await_empty(url, lambda: time.sleep(_BETWEEN_LOOKS))
                took = time.perf_counter() - start
            succeeded = sum(found.jobs for found in app.jobs.counts() if found.state == "succeeded")
        finally:
            app.close()
    if succeeded != count:
        raise RuntimeError(f"of {count} jobs {succeeded} succeeded")
    return count / took


def _app(url: str, batched: bool, seconds: float) -> tuple[holdfast.App, Any]:
    app = holdfast.App(url)

    @app.task(queue=QUEUE)
    async def single(n: int) -> int:
        if seconds:
            await asyncio.sleep(seconds)
        return n

    @app.task(queue=QUEUE, batch=BATCH, wait=0.1)
    async def many(items: list[holdfast.Item[int]]) -> list[int]:
        if seconds:
            await asyncio.sleep(seconds)
        return [item.value for item in items]

    return app, many if batched else single


def compare(bench: Bench, count: int, runs: int, seconds: float) -> str:
    """Return a line of the table: the medians of both, and their ratio."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for run in range(runs):
        for batched in (False, True) if run % 2 else (True, False):
            rates[batched].append(drained(bench, count, batched=batched, seconds=seconds))
    single, many = median(rates[False]), median(rates[True])
    return f"{bench.name:10} {seconds * 1000:5.0f} ms {single:10,.0f} {many:10,.0f} {many / single:7.2f}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--runs", type=int, default=5)
    given = options.parse_args()
    logging.disable()
    print(f"{'store':10} {'a call':>8} {'single/s':>10} {'batched/s':>10} {'ratio':>7}")
    with folder() as place, server() as dsn:
        benches: list[Bench] = [SqliteBench(place), PostgresBench(dsn)]
        for bench in benches:
            for seconds in (0.0, 0.005):
                print(compare(bench, given.count, given.runs, seconds), flush=True)


if __name__ == "__main__":
    main()
