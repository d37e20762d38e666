"""Processes of an earlier Holdfast, and of this one, that run the same program on one store.

`first` is the earliest that ran jobs end to end on both stores, with the first schema. `fifteenth` knows fifteen
migrations, and may not write to the schema of today either. Both are the sources of their time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.acceptance.fleet import ROOT, until
from tests.chaos import ledger
from tests.chaos.ledger import Line

FROZEN = Path(__file__).parent / "frozen"
Age = Literal["first", "fifteenth", "current"]


class Times:
    """Starts programs of any age, all with one ledger and one log."""

    def __init__(self, store: str, folder: Path) -> None:
        self.store = store
        self.ledger = folder / "ledger"
        self.log = folder / "log"
        self._processes: list[subprocess.Popen[str]] = []

    def run(self, age: Age, *arguments: str) -> str:
        """Run a command to its end; what it said last."""
        done = subprocess.run(self._command(*arguments), env=self._environment(age), capture_output=True, text=True)
        return (done.stdout + done.stderr).strip().splitlines()[-1]

    def start(self, age: Age, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that lasts, and wait until it says that it is under way."""
        with self.log.open("a") as log:
            process = subprocess.Popen(
                self._command(*arguments),
                env=self._environment(age),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline(), self.log.read_text()[-3000:]
        return process

    def seen(self, mark: str) -> set[str]:
        return {line.job for line in self.lines() if line.mark == mark}

    def lines(self) -> tuple[Line, ...]:
        return ledger.read(self.ledger)

    def leave(self, process: subprocess.Popen[str]) -> None:
        """Let it end in order."""
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0, self.log.read_text()[-3000:]

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(FROZEN / "program.py"), *arguments]

    def _environment(self, age: Age) -> dict[str, str]:
        package = ROOT / "src" if age == "current" else FROZEN / f"{age}.zip"
        paths = {"PYTHONPATH": f"{package}:{ROOT}", "HOLDFAST_STORE": self.store, "TEST_LEDGER": str(self.ledger)}
        return os.environ | paths


@contextmanager
def times(store: str, folder: Path) -> Iterator[Times]:
    it = Times(store, folder)
    try:
        yield it
    finally:
        it.end()


def make_and_crash(past: Times, age: Age) -> str:
    """A store of that age, whose worker was killed while it ran a job; that job."""
    maker = past.start(age, "make")
    until(lambda: len(past.seen("S")) >= 2, 60, "the last one runs", past.log)
    maker.kill()
    maker.wait()
    return past.lines()[-1].job
