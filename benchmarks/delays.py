"""How long a job waits in an idle system: from the call of enqueue to the start of its handler."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final

from .fleet import CONCURRENCY, workers
from .jobs import jobs_on
from .measure import Latency
from .stores import Bench

WARM_UP: Final = 5


def within(bench: Bench, samples: int) -> Latency:
    """From the call of `aenqueue` to the handler's start, in one idle process."""
    with bench.fresh() as url:
        return Latency.of(asyncio.run(_sample_within(url, samples)))


def across(bench: Bench, samples: int) -> Latency:
    """From the call of `enqueue`, with the worker in a process of its own."""
    delays: list[float] = []
    with bench.fresh() as url, workers(url, 1) as [worker]:
        jobs = jobs_on(url)
        for _ in range(samples + WARM_UP):
            time.sleep(_pause())
            jobs.stamp.enqueue(time.monotonic())
            delays.append(float(worker.output.readline()))
        jobs.app.close()
    return Latency.of(delays[WARM_UP:])


async def _sample_within(url: str, samples: int) -> list[float]:
    arrived: asyncio.Queue[float] = asyncio.Queue()
    jobs, delays = jobs_on(url, arrived.put_nowait), []
    async with jobs.app.worker(concurrency=CONCURRENCY):
        for _ in range(samples + WARM_UP):
            await asyncio.sleep(_pause())
            await jobs.stamp.aenqueue(time.monotonic())
            delays.append(await arrived.get())
    jobs.app.close()
    return delays[WARM_UP:]


def _pause() -> float:
    # Long enough for everything to fall asleep, and never in step with a poll.
    return random.uniform(0.01, 0.04)
