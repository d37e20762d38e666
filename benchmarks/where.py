"""Where the time of a job goes: a drain in this process, whose event loop is sampled by a timer's signal.

Each sample counts for the part of Holdfast in which the innermost frame lies, or for waiting. What other threads did,
such as a store's own, is told by the processor time that the system has on record for them (Linux only).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from rich.console import Console
from rich.table import Table

import holdfast
from holdfast.runtime.running import collect_seldom

from . import report, stores
from .enqueues import fill
from .fleet import CONCURRENCY
from .jobs import jobs_on
from .raw_postgres import PostgresBench
from .raw_sqlite import SqliteBench
from .stores import Bench

INTERVAL: Final = 0.002
WAITING: Final = ("waiting", "for the store or for work")
_PACKAGE: Final = f"{Path(holdfast.__file__).parent}/"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Samples:
    """Counts by (group, function). The handler must be quick: a slow one would be interrupted by itself."""

    found: Counter[tuple[str, str]] = field(default_factory=Counter)
    _places: dict[CodeType, tuple[str, str] | None] = field(default_factory=dict)

    def take(self, _: int, frame: FrameType | None) -> None:
        while frame is not None:
            code = frame.f_code
            if code not in self._places:
                self._places[code] = _place(code)
            if place := self._places[code]:
                self.found[place] += 1
                return
            frame = frame.f_back
        self.found["asyncio and other", "asyncio"] += 1


def add_command(commands: Any) -> None:
    parser = commands.add_parser("where", help="where the time of a job goes, by part of Holdfast")
    parser.set_defaults(command=_run)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--top", type=int, default=15, help="functions to show")


def _run(options: argparse.Namespace, console: Console) -> int:
    with stores.folder() as folder, stores.server() if options.store == "postgres" else stores.folder() as dsn:
        bench: Bench = PostgresBench(str(dsn)) if options.store == "postgres" else SqliteBench(folder)
        with bench.fresh() as url:
            samples, seconds, others = asyncio.run(_drain(bench, url, options.jobs))
    content = _content(bench.name, samples, seconds, others, options)
    _show(content, options, console)
    console.print(f"written to {report.save(content, f'-where-{options.store}')}")
    return 0


async def _drain(bench: Bench, url: str, count: int) -> tuple[Samples, float, dict[str, float]]:
    """The samples, the seconds it took, and the processor seconds of the other threads by name."""
    jobs, samples = jobs_on(url), Samples()
    fill(jobs, lambda _: jobs.nothing, count)
    collect_seldom()  # as `holdfast worker` does
    signal.signal(signal.SIGALRM, samples.take)
    start = time.perf_counter()
    async with jobs.app.worker(concurrency=CONCURRENCY):
        signal.setitimer(signal.ITIMER_REAL, INTERVAL, INTERVAL)
        # Seldom: each look takes the interpreter from the worker.
        await asyncio.to_thread(bench.await_empty, url, lambda: time.sleep(0.1))
        signal.setitimer(signal.ITIMER_REAL, 0)
        seconds = time.perf_counter() - start
        others = _other_threads()
    jobs.app.close()
    return samples, seconds, others


def _other_threads() -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for thread in threading.enumerate():
        stat = Path(f"/proc/self/task/{thread.native_id}/stat")
        if not thread.name.startswith(("MainThread", "asyncio")) and stat.exists():
            fields = stat.read_text("utf-8").rpartition(")")[2].split()
            found[thread.name.rstrip("0123456789-_")] += (int(fields[11]) + int(fields[12])) / _TICKS
    return {name: seconds for name, seconds in found.items() if seconds}


def _place(code: CodeType) -> tuple[str, str] | None:
    """The group and the function of a frame; None if its caller should be asked."""
    if code.co_filename.endswith("/selectors.py"):
        return WAITING
    if not code.co_filename.startswith(_PACKAGE):
        return None
    inside = code.co_filename.removeprefix(_PACKAGE)
    return "/".join(inside.split("/")[:2]).removesuffix(".py"), f"{inside}:{code.co_name}"


def _content(
    name: str, samples: Samples, seconds: float, others: dict[str, float], options: argparse.Namespace
) -> dict[str, Any]:
    whole = 1e6 * seconds / options.jobs
    # Samples are shared out over the whole time: the timer's own rate is not exact.
    each = whole / (sum(samples.found.values()) or 1)
    groups: Counter[str] = Counter()
    for (group, _), count in samples.found.items():
        groups[group] += count
    busy = [[thread, "CPU time", 1e6 * spent / options.jobs] for thread, spent in others.items()]
    return {
        "kind": "where",
        "store": name,
        "jobs": options.jobs,
        "machine": report.machine(),
        "us_per_job": whole,
        "groups": [["event loop", group, count * each] for group, count in groups.most_common()] + busy,
        "functions": [[function, count * each] for (_, function), count in samples.found.most_common(60)],
    }


def _show(content: dict[str, Any], options: argparse.Namespace, console: Console) -> None:
    console.print(f"{content['store']}: {content['us_per_job']:.1f} µs for each of {content['jobs']:,} jobs")
    table = Table("thread", "part", "µs a job")
    for thread, group, cost in content["groups"]:
        table.add_row(thread, group, f"{cost:.2f}")
    console.print(table)
    table = Table("function", "µs a job")
    for function, cost in content["functions"][: options.top]:
        table.add_row(function, f"{cost:.2f}")
    console.print(table)
