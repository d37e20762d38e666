"""The demo's worker processes: real ones, started by the command line that anybody would use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from ..running import SUPERVISOR_VARIABLE
from . import ledger
from .tasks import QUEUES

LEASE: Final = 3


class WorkerProcess:
    """One `holdfast worker`, with its log in a file."""

    def __init__(self, number: int, folder: Path) -> None:
        self.name: Final = f"demo-{number}"
        self.log: Final = folder / f"worker-{number}.log"
        argv = [
            sys.executable, "-m", "holdfast", "worker", "holdfast.demo.tasks:app",
            "--queues", ",".join(QUEUES), "--concurrency", "20", "--name", self.name, "--grace", "5",
        ]  # fmt: skip
        environment = os.environ | {
            "HOLDFAST_LEASE": str(LEASE),
            "HOLDFAST_INLINE": "0",
            ledger.VARIABLE: str(folder / "ledger"),
            # It stops when we end, even if we are killed.
            SUPERVISOR_VARIABLE: str(os.getpid()),
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stderr=log)  # noqa: S603

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """kill -9: it can say goodbye to nobody."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Ask it to stop and wait; its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            return -9

    def last_words(self) -> str:
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return "\n".join(lines[-15:])
