"""How fast Holdfast's workers empty a full queue.

Rates count until the store shows nothing unfinished, not until the last handler has started.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal

import holdfast

from .enqueues import Choice, fill
from .fleet import WorkerProcess, workers
from .jobs import QUEUE, Jobs, jobs_on
from .measure import Reading
from .stores import Bench

KINDS: Final[dict[str, Callable[[Jobs], Choice]]] = {
    "async": lambda jobs: lambda _: jobs.nothing,
    "def": lambda jobs: lambda _: jobs.nothing_in_thread,
    # A thousand keys that are never full, and a hundred tenants that take turns.
    "keyed": lambda jobs: lambda n: jobs.nothing.options(concurrency_key=f"k{n % 1_000}", concurrency=100),
    "fair": lambda jobs: lambda n: jobs.nothing.options(fair_key=f"t{n % 100}"),
}
"""The task of the n-th job of each kind of drain."""


def drain(
    bench: Bench,
    count: int,
    *,
    kind: str = "async",
    processes: int = 1,
    finished: int = 0,
    analysed: Literal["never", "empty", "full"] = "never",
    events: str | None = None,
) -> float:
    """From the moment a full queue is opened to waiting workers, until the store shows nothing unfinished.

    `finished` is how many jobs of the past lie beside them; `events` is what the log is told of the queue. `analysed`
    says when the database looked at its tables: what it learnt of empty ones is wrong by the time of the drain.
    """
    with bench.fresh() as url:
        if analysed == "empty":
            bench.analyse(url)
        if events is not None:
            _set_events(url, events)
        if finished:
            bench.add_finished(url, finished)
        jobs = _filled(url, kind, count)
        if analysed == "full":
            bench.analyse(url)
        with workers(url, processes):
            took = _opened_until_empty(bench, url, jobs)
        _check(url, count + finished)
        return count / took


def refill_and_drain(bench: Bench, url: str, count: int) -> float:
    """The seconds of one more drain of the same store."""
    jobs = _filled(url, "async", count)
    with workers(url, 1):
        return _opened_until_empty(bench, url, jobs)


def drain_watching_memory(bench: Bench, count: int) -> Reading:
    """The same, and the worker's resident MB after a tenth of the time and at the end."""
    with bench.fresh() as url:
        jobs = _filled(url, "async", count)
        with workers(url, 1) as [worker]:
            seen = _Memory(worker)
            took = _opened_until_empty(bench, url, jobs, seen.look)
        return {"rate": count / took, "early": seen.values[len(seen.values) // 10], "late": seen.values[-1]}


class _Memory:
    """Notes a worker's memory ten times a second."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker
        self._next = 0.0
        self.values: list[float] = []

    def look(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.1
            self.values.append(self._worker.memory())


def _filled(url: str, kind: str, count: int) -> Jobs:
    jobs = jobs_on(url)
    jobs.app.queues.pause(QUEUE)
    fill(jobs, KINDS[kind](jobs), count)
    jobs.app.close()
    return jobs


def _set_events(url: str, level: str) -> None:
    app = holdfast.App(url)
    app.queues.set(QUEUE, events=level)
    app.close()


def _opened_until_empty(bench: Bench, url: str, jobs: Jobs, look: Callable[[], None] = lambda: None) -> float:
    """The seconds it took."""
    start = time.perf_counter()
    jobs.app.queues.resume(QUEUE)
    bench.await_empty(url, look)
    took = time.perf_counter() - start
    jobs.app.close()
    return took


def _check(url: str, count: int) -> None:
    app = holdfast.App(url)
    counts = app.jobs.counts()
    succeeded = sum(found.jobs for found in counts if found.state == "succeeded")
    others = {found.state: found.jobs for found in counts if found.state != "succeeded"}
    app.close()
    # A great number is an estimate.
    if others or (succeeded != count and not any(found.estimated for found in counts)):
        raise RuntimeError(f"of {count} jobs {succeeded} succeeded, and the store shows {others}")
