"""Real worker processes, and what can happen to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import holdfast
from tests.chaos import ledger
from tests.chaos.facts import Facts, read_facts
from tests.chaos.ledger import Line

ROOT = Path(__file__).parents[2]
# Seconds. Nobody loses this one on a machine that stands still for a while; who is killed is found by the process.
LONG_LEASE = 60.0


class Fleet:
    """Workers over one store, each a process of its own."""

    def __init__(self, store: str, folder: Path, *, lease: float = 2.0) -> None:
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.log = folder / "workers.log"
        self.environment = os.environ | {
            "HOLDFAST_STORE": store,
            "HOLDFAST_LEASE": str(lease),
            "HOLDFAST_RESCUE_INTERVAL": "0.7",
            "TEST_LEDGER": str(self.ledger),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        }
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """One more `holdfast worker`."""
        process = self.run_python("-m", "holdfast", "worker", "tests.acceptance.jobs:app", *options)
        self.workers.append(process)
        return process

    def run_python(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *arguments], env=self.environment, cwd=ROOT, stdout=log, stderr=log
            )

    def kill(self, index: int, *options: str) -> None:
        """`kill -9`, and a new worker in its place."""
        self.workers[index].kill()
        self.workers[index].wait()
        fresh = self.start(*options)
        self.workers.pop()
        self.workers[index] = fresh

    def stop_all(self, patience: float = 60) -> list[int]:
        """SIGTERM to all; their exit codes."""
        for worker in self.workers:
            worker.send_signal(signal.SIGCONT)
            worker.terminate()
        return [worker.wait(patience) for worker in self.workers]

    def end(self) -> None:
        """Whatever is still there goes now."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()

    def lines(self) -> list[Line]:
        """What handlers have noted so far."""
        return list(ledger.read(self.ledger))

    def facts(self, app: holdfast.App, acknowledged: Iterable[str] = ()) -> Facts:
        """The store as it is, beside what was seen outside it."""
        return read_facts(app.open(), [*(Line("Q", job_id, 0) for job_id in acknowledged), *self.lines()])


@contextmanager
def fleet(store: str, folder: Path, *, lease: float = 2.0) -> Iterator[Fleet]:
    it = Fleet(store, folder, lease=lease)
    try:
        yield it
    finally:
        it.end()


def until(condition: Callable[[], bool], seconds: float, what: str, log: Path | None = None) -> None:
    """Look until something is so. Processes outside this one have no event to wait for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            tail = log.read_text()[-4000:] if log and log.exists() else ""
            raise AssertionError(f"{what}: not so after {seconds} s\n{tail}")
        time.sleep(0.05)


def ids_of(lines: Sequence[Line], mark: str) -> set[str]:
    return {line.job for line in lines if line.mark == mark}
