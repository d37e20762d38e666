"""Worker processes of the app under measurement, and what the system says of them (by /proc, so on Linux only)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

CONCURRENCY: Final = 100
"""Slots of each worker, as many as the bare loops claim at once."""
ROOT: Final = Path(__file__).parents[1]
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """One that serves. `output` has a line for each `stamp` job."""

    pid: int
    output: IO[str]

    def memory(self) -> float:
        """Resident MB."""
        return resident(self.pid)


@contextmanager
def workers(url: str, processes: int) -> Iterator[list[WorkerProcess]]:
    """Worker processes that are ready when they are given, and end with the context."""
    command = [sys.executable, "-m", "benchmarks.jobs", url, str(CONCURRENCY)]
    with ExitStack() as stack:
        started = []
        for _ in range(processes):
            child = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
            )
            assert child.stdin is not None
            assert child.stdout is not None
            stack.callback(child.stdin.close)
            started.append(WorkerProcess(child.pid, child.stdout))
        for worker in started:
            if worker.output.readline() != "ready\n":
                raise RuntimeError("a worker process did not start; its own words are above")
        yield started


@contextmanager
def command_line_worker(url: str, *options: str) -> Iterator[int]:
    """The pid of a `holdfast worker` as people run it, with its defaults unless options are given."""
    command = [sys.executable, "-m", "holdfast", "worker", "benchmarks.jobs:app", "--log-level", "warning", *options]
    child = subprocess.Popen(command, env=os.environ | {"HOLDFAST_STORE": url}, cwd=ROOT)
    try:
        yield child.pid
    finally:
        child.terminate()
        child.wait(60)


def resident(pid: int) -> float:
    """MB of a process in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def busy_share(pid: int, seconds: float) -> float:
    """The processor time of a process over the next seconds, in per cent of one core."""
    before, start = _cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (_cpu_seconds(pid) - before) / (time.monotonic() - start)


def _cpu_seconds(pid: int) -> float:
    # The name, in parentheses, may have blanks.
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
