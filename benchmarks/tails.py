"""How soon readers hear what a job says: from the call of `emit` to the reader, at 2,000 frames a second.

`python -m benchmarks.tails STORE JOB READERS` is a process of readers; it prints each frame's delay, all at the end.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import holdfast

from .fleet import ROOT
from .measure import Latency
from .stores import Bench

RATE: Final = 2_000
READERS: Final = 10
_TICK: Final = 0.005
# Readers join, connections are made.
_WARM_UP: Final = 0.5


def within(bench: Bench, frames: int) -> Latency:
    """Ten readers in the process of the writer."""
    with bench.fresh() as url:
        return Latency.of(asyncio.run(_within(url, frames)))


def across(bench: Bench, frames: int) -> Latency:
    """Ten readers in two processes of their own."""
    with bench.fresh() as url:
        return Latency.of(asyncio.run(_across(url, frames)))


async def _within(url: str, frames: int) -> list[float]:
    app = writer_on(url)
    async with app.worker():
        job = await app.tasks["says"].aenqueue(frames)
        found = await asyncio.gather(*(_delays(app, job.id, frames) for _ in range(READERS)))
    app.close()
    return [delay for one in found for delay in one]


async def _across(url: str, frames: int) -> list[float]:
    app = writer_on(url)
    job = await app.tasks["says"].options(delay=2).aenqueue(frames)
    with _readers(url, job.id, frames) as processes:
        for process in processes:
            assert process.stdout is not None
            await asyncio.to_thread(process.stdout.readline)
        async with app.worker():
            await job.aresult(60 + frames / RATE)
        said = await asyncio.gather(*(asyncio.to_thread(process.communicate) for process in processes))
    app.close()
    return [float(line) for output, _ in said for line in output.split()]


def writer_on(url: str) -> holdfast.App:
    app = holdfast.App(url)

    @app.task
    async def says(ctx: holdfast.Context, frames: int) -> None:
        await asyncio.sleep(_WARM_UP)
        begun = time.monotonic()
        for n in range(frames):
            if (early := begun + n / RATE - time.monotonic()) > 0:
                await asyncio.sleep(max(early, _TICK))
            # CLOCK_MONOTONIC, which all processes of a machine share.
            await ctx.emit([n, time.monotonic()])

    return app


async def _delays(app: holdfast.App, job_id: str, frames: int) -> list[float]:
    delays: list[float] = []
    async for frame in app.astream(job_id):
        n, said = frame.data
        if n != len(delays):
            raise RuntimeError(f"frame {n} came after {len(delays)} frames")
        delays.append(time.monotonic() - said)
    if len(delays) != frames:
        raise RuntimeError(f"{len(delays)} of {frames} frames came")
    return delays


@contextmanager
def _readers(url: str, job_id: str, frames: int) -> Iterator[list[subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "benchmarks.tails", url, job_id, str(READERS // 2), str(frames)]
    with ExitStack() as stack:
        yield [
            stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT))
            for _ in range(2)
        ]


async def _read(url: str, job_id: str, readers: int, frames: int) -> list[float]:
    app = holdfast.App(url)
    print("ready", flush=True)
    found = await asyncio.gather(*(_delays(app, job_id, frames) for _ in range(readers)))
    app.close()
    return [delay for one in found for delay in one]


if __name__ == "__main__":
    store, job, readers, expected = sys.argv[1:]
    for delay in asyncio.run(_read(store, job, int(readers), int(expected))):
        print(delay)
