"""How fast Holdfast takes jobs in, through its public API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import holdfast

from .jobs import Jobs, jobs_on
from .measure import PAYLOAD, rate
from .stores import Bench

THREADS: Final = 16
TASKS: Final = 200
BULK: Final = 1_000


def one_by_one(bench: Bench, count: int) -> float:
    """One after the other, from one thread."""
    with _opened(bench) as jobs:
        return rate(lambda: _enqueue(jobs, count), count)


def by_threads(bench: Bench, count: int) -> float:
    """From 16 threads at once."""
    with _opened(bench) as jobs, ThreadPoolExecutor(THREADS) as pool:
        share = [count // THREADS] * THREADS
        return rate(lambda: list(pool.map(lambda part: _enqueue(jobs, part), share)), sum(share))


def by_tasks(bench: Bench, count: int) -> float:
    """From 200 asyncio tasks at once."""
    with _opened(bench) as jobs:
        return asyncio.run(_enqueue_by_tasks(jobs, count))


def in_bulk(bench: Bench, calls: int) -> float:
    """1,000 at a time, making the requests included."""
    with _opened(bench) as jobs:
        return rate(lambda: fill(jobs, lambda _: jobs.nothing, BULK * calls), BULK * calls)


Choice = Callable[[int], holdfast.Task[[int, str], None]]


def fill(jobs: Jobs, task: Choice, count: int) -> None:
    """That many jobs, the n-th of the task that `task` names for it."""
    for first in range(0, count, BULK):
        numbers = range(first, min(count, first + BULK))
        jobs.app.enqueue_many([task(number).job(number, PAYLOAD) for number in numbers])


@contextmanager
def _opened(bench: Bench) -> Iterator[Jobs]:
    with bench.fresh() as url:
        jobs = jobs_on(url)
        # The first call opens the store, which is not what is measured.
        jobs.nothing.enqueue(0, "")
        yield jobs
        jobs.app.close()


def _enqueue(jobs: Jobs, count: int) -> None:
    for number in range(count):
        jobs.nothing.enqueue(number, PAYLOAD)


async def _enqueue_by_tasks(jobs: Jobs, count: int) -> float:
    async def produce(share: int) -> None:
        for number in range(share):
            await jobs.nothing.aenqueue(number, PAYLOAD)

    await jobs.nothing.aenqueue(0, "")
    start = time.perf_counter()
    await asyncio.gather(*(produce(count // TASKS) for _ in range(TASKS)))
    return count // TASKS * TASKS / (time.perf_counter() - start)
