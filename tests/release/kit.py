"""Programs as their users start them: with their output in a file, and an end for each."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Seconds, on a machine that has other things to do.
PATIENCE = 120
# Python 3.12.0 to 3.12.3 take ?1 in a statement for a named parameter, and warn; later ones do not.
WARNINGS = "error,ignore:Binding:DeprecationWarning"


def environment(**extra: str) -> dict[str, str]:
    """Return the variables of this process without those that would lead to the repository or change settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTHON"))}
    return kept | {"PYTHONWARNINGS": WARNINGS} | extra


def free_port() -> int:
    """Return a port of loopback that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def run(command: Sequence[str], cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=environment(**extra), capture_output=True, text=True, timeout=PATIENCE
    )  # fmt: skip


def succeed(command: Sequence[str], cwd: Path, **extra: str) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = run(command, cwd, **extra)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


class Started:
    """A program that runs until it is stopped."""

    def __init__(self, command: Sequence[str], cwd: Path, log: Path, **extra: str) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, cwd=cwd, env=environment(**extra), stdout=output, stderr=subprocess.STDOUT
            )

    def said(self, pattern: str) -> str:
        """Wait until it has printed what matches, and return that."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self._log.read_text())):
            ended = self._process.poll()
            assert ended is None, f"it ended with {ended} and said\n{self._log.read_text()}\nnot {pattern}"
            assert time.monotonic() < deadline, f"it said\n{self._log.read_text()}\nnot {pattern}"
            time.sleep(0.05)
        return found[0]

    def stop(self) -> None:
        """Ask it to stop, as a process manager does; it must end well."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(PATIENCE) == 0, self._log.read_text()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE)


@contextmanager
def started(command: Sequence[str], cwd: Path, log: Path, **extra: str) -> Iterator[Started]:
    program = Started(command, cwd, log, **extra)
    try:
        yield program
        program.stop()
    finally:
        program.kill()
