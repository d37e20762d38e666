"""The app under measurement, and a worker process of it: `python -m benchmarks.jobs STORE CONCURRENCY`.

The worker says "ready" when it serves, prints the delay of each `stamp` job, and ends with its standard input. `app` is
for `holdfast worker`, with HOLDFAST_STORE.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import holdfast
from holdfast.runtime.running import collect_seldom

QUEUE: Final = "bench"


@dataclass(frozen=True, slots=True)
class Jobs:
    """An app and its tasks."""

    app: holdfast.App
    nothing: holdfast.Task[[int, str], None]
    nothing_in_thread: holdfast.Task[[int, str], None]
    stamp: holdfast.Task[[float], None]


def jobs_on(store: str, on_stamp: Callable[[float], Any] = print) -> Jobs:
    """The app on that store. `on_stamp` is told the seconds between a stamp's enqueue and its handler's start."""
    app = holdfast.App(store)

    @app.task(queue=QUEUE)
    async def nothing(n: int, text: str) -> None: ...

    @app.task(queue=QUEUE)
    def nothing_in_thread(n: int, text: str) -> None: ...

    @app.task(queue=QUEUE)
    async def stamp(sent: float) -> None:
        # CLOCK_MONOTONIC, which all processes of a machine share.
        on_stamp(time.monotonic() - sent)

    return Jobs(app, nothing, nothing_in_thread, stamp)


app: Final = jobs_on("bench.db").app


def main(store: str, concurrency: str) -> None:
    jobs = jobs_on(store, lambda delay: print(delay, flush=True))
    # As `holdfast worker` does.
    collect_seldom()
    with jobs.app.worker(concurrency=int(concurrency)):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
