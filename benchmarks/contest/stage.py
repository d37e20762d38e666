"""One peer at its place: its commands, its worker processes, and what its handlers noted."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from .catalogue import Entry
from .environments import ROOT

_ENDED: Final = 1 << 63
_PAIR: Final = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Stage:
    """Where an entry is tried. `place` is a folder, a DSN or a URL of Redis."""

    entry: Entry
    environment: Path
    place: str
    scratch: Path
    work: float = 0.0
    """Seconds that each job lasts."""

    @property
    def record(self) -> Path:
        return self.scratch / "record"

    @property
    def log(self) -> Path:
        return self.scratch / "workers.log"

    def call(self, command: str, *arguments: object, limit: float = 600) -> float:
        """Run one of its commands to the end; the seconds that it says, 0 if none."""
        done = subprocess.run(
            [*self._module(command), *map(str, arguments)],
            env=self._variables(), cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{self.entry.key}: {command} failed: {done.stderr.strip()[-600:]}")
        return float(done.stdout.split()[-1]) if done.stdout.strip() else 0.0

    def clear(self) -> None:
        """Forget what was noted."""
        self.record.write_bytes(b"")

    def count(self) -> int:
        """How many notes there are."""
        return self.record.stat().st_size // _PAIR.size

    def notes(self) -> list[tuple[int, int]]:
        """Of each handler: its job's number, and when it started in nanoseconds."""
        return [(number, at) for number, at in self._all_notes() if number < _ENDED]

    def ends(self) -> list[int]:
        """The numbers of the jobs that ran to their end, each as often as it did."""
        return [number - _ENDED for number, _ in self._all_notes() if number >= _ENDED]

    @contextmanager
    def workers(self, processes: int) -> Iterator[list[subprocess.Popen[bytes]]]:
        started = [self.start(index) for index in range(processes)]
        try:
            yield started
        finally:
            for worker in started:
                stop(worker)

    def start(self, index: int = 0) -> subprocess.Popen[bytes]:
        """A worker, in a session of its own."""
        command = self._worker() or self._module("work")
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command, env=self._variables(BENCH_INDEX=str(index)), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip

    @contextmanager
    def watcher(self) -> Iterator[Watcher]:
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                self._module("watch"), env=self._variables(), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, text=True,
            )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            if child.stdout.readline() != "ready\n":
                raise RuntimeError(f"{self.entry.key}: the watcher did not start")
            yield Watcher(child.stdin, child.stdout)
        finally:
            child.kill()
            child.communicate()

    def _all_notes(self) -> Iterator[tuple[int, int]]:
        content = self.record.read_bytes()
        return _PAIR.iter_unpack(content[: len(content) // _PAIR.size * _PAIR.size])

    def _module(self, command: str) -> list[str]:
        return [str(self.environment / "bin" / "python"), "-m", f"benchmarks.peers.{self.entry.module}", command]

    def _worker(self) -> Sequence[str]:
        words = [str(self.environment / word) if word.startswith("bin/") else word for word in self.entry.worker]
        return [*words, "--url", self.place] if self.entry.key == "rq" else words

    def _variables(self, **extra: str) -> dict[str, str]:
        paths = f"{ROOT}{os.pathsep}{ROOT / 'src'}" if self.entry.ours else str(ROOT)
        lease = {"HOLDFAST_LEASE": "10"} if self.entry.ours and self.work else {}
        own = {"BENCH_PLACE": self.place, "BENCH_RECORD": str(self.record), "BENCH_WORK": str(self.work)}
        return {**os.environ, "PYTHONPATH": paths, **own, **lease, **self.entry.options, **extra}


@dataclass(frozen=True, slots=True)
class Watcher:
    """A process that looks at the store for us, kept so that a look costs no start."""

    questions: IO[str]
    answers: IO[str]

    def settled(self) -> int:
        """When nothing was unfinished any more, in nanoseconds. Blocks until then."""
        return self._ask("\n")

    def unfinished(self) -> int:
        return self._ask("?\n")

    def _ask(self, question: str) -> int:
        self.questions.write(question)
        self.questions.flush()
        return int(self.answers.readline())


def stop(worker: subprocess.Popen[bytes], patience: float = 5) -> None:
    """Ask it to end, and kill what is left of its session."""
    worker.terminate()
    deadline = time.monotonic() + patience
    while worker.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    kill(worker)


def kill(worker: subprocess.Popen[bytes]) -> None:
    """`kill -9` for the worker and all its children."""
    with suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
