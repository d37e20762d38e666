"""What Holdfast does with the same work, through its public API.

Rates of drains count until the store shows nothing unfinished, not until the last handler has started.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import IO, Any, Final, Protocol

import holdfast

from .jobs import QUEUE, Jobs, jobs_on
from .measure import PAYLOAD, Latency, rate

THREADS: Final = 16
TASKS: Final = 200
CONCURRENCY: Final = 100
"""Slots of each worker, as many as the bare loops claim at once."""


class Bench(Protocol):
    """A kind of store: fresh databases, and when one is empty."""

    @property
    def name(self) -> str: ...
    def fresh(self) -> Any: ...
    def settings(self) -> dict[str, str]: ...
    def enqueue_one(self, count: int) -> float: ...
    def enqueue_bulk(self, calls: int) -> float: ...
    def drain(self, count: int) -> float: ...
    def await_empty(self, url: str) -> None: ...


Choice = Callable[[int], holdfast.Task[[int, str], None]]

KINDS: Final[dict[str, Callable[[Jobs], Choice]]] = {
    "async": lambda jobs: lambda _: jobs.nothing,
    "def": lambda jobs: lambda _: jobs.nothing_in_thread,
    # A thousand keys that are never full, and a hundred tenants that take turns.
    "keyed": lambda jobs: lambda n: jobs.nothing.options(concurrency_key=f"k{n % 1_000}", concurrency=100),
    "fair": lambda jobs: lambda n: jobs.nothing.options(fair_key=f"t{n % 100}"),
}
"""The task of the n-th job of each kind of drain."""


def enqueue_one(bench: Bench, count: int) -> float:
    """One after the other, from one thread."""
    with _opened(bench) as jobs:
        return rate(lambda: _enqueue(jobs, count), count)


def enqueue_threads(bench: Bench, count: int) -> float:
    """From 16 threads at once."""
    with _opened(bench) as jobs, ThreadPoolExecutor(THREADS) as pool:
        share = [count // THREADS] * THREADS
        return rate(lambda: list(pool.map(lambda part: _enqueue(jobs, part), share)), sum(share))


def enqueue_tasks(bench: Bench, count: int) -> float:
    """From 200 asyncio tasks at once."""
    with _opened(bench) as jobs:
        return asyncio.run(_enqueue_by_tasks(jobs, count))


def enqueue_bulk(bench: Bench, calls: int) -> float:
    """1,000 at a time, making the requests included."""
    with _opened(bench) as jobs:
        return rate(lambda: _fill(jobs, lambda _: jobs.nothing, 1_000 * calls), 1_000 * calls)


def drain(bench: Bench, count: int, *, kind: str, processes: int = 1) -> float:
    """From the moment a full queue is opened to waiting workers, until the store shows nothing unfinished."""
    with bench.fresh() as url:
        jobs = jobs_on(url)
        jobs.app.queues.pause(QUEUE)
        _fill(jobs, KINDS[kind](jobs), count)
        jobs.app.close()
        with _workers(url, processes):
            start = time.perf_counter()
            jobs.app.queues.resume(QUEUE)
            bench.await_empty(url)
            took = time.perf_counter() - start
            jobs.app.close()
        _check(url, count)
        return count / took


def latency_within(bench: Bench, samples: int) -> Latency:
    """From the call of `aenqueue` to the handler's start, in one idle process."""
    with bench.fresh() as url:
        return Latency.of(asyncio.run(_sample_within(url, samples)))


def latency_across(bench: Bench, samples: int) -> Latency:
    """The same with the worker in a process of its own."""
    delays: list[float] = []
    with bench.fresh() as url, _workers(url, 1) as outputs:
        jobs = jobs_on(url)
        for _ in range(samples + 5):
            time.sleep(_pause())
            jobs.stamp.enqueue(time.monotonic())
            delays.append(float(outputs[0].readline()))
        jobs.app.close()
    return Latency.of(delays[5:])


async def _sample_within(url: str, samples: int) -> list[float]:
    arrived: asyncio.Queue[float] = asyncio.Queue()
    jobs, delays = jobs_on(url, arrived.put_nowait), []
    async with jobs.app.worker(concurrency=CONCURRENCY):
        for _ in range(samples + 5):
            await asyncio.sleep(_pause())
            await jobs.stamp.aenqueue(time.monotonic())
            delays.append(await arrived.get())
    jobs.app.close()
    return delays[5:]


def _pause() -> float:
    # Long enough for everything to fall asleep, and never in step with a poll.
    return random.uniform(0.01, 0.04)


@contextmanager
def _opened(bench: Bench) -> Iterator[Jobs]:
    with bench.fresh() as url:
        jobs = jobs_on(url)
        # The first call opens the store, which is not what is measured.
        jobs.nothing.enqueue(0, "")
        yield jobs
        jobs.app.close()


@contextmanager
def _workers(url: str, processes: int) -> Iterator[list[IO[str]]]:
    command = [sys.executable, "-m", "benchmarks.jobs", url, str(CONCURRENCY)]
    with ExitStack() as stack:
        outputs: list[IO[str]] = []
        for _ in range(processes):
            child = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            assert child.stdin is not None
            assert child.stdout is not None
            stack.callback(child.stdin.close)
            outputs.append(child.stdout)
        for output in outputs:
            if output.readline() != "ready\n":
                raise RuntimeError("a worker process did not start; its own words are above")
        yield outputs


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


def _fill(jobs: Jobs, task: Choice, count: int) -> None:
    for first in range(0, count, 1_000):
        numbers = range(first, min(count, first + 1_000))
        jobs.app.enqueue_many([task(number).job(number, PAYLOAD) for number in numbers])


def _check(url: str, count: int) -> None:
    app = holdfast.App(url)
    counts = {found.label: found.jobs for found in app.jobs.counts()}
    app.close()
    if counts != {"succeeded": count}:
        raise RuntimeError(f"of {count} jobs the store shows {counts}")
