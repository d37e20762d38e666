"""Where the processes of a storm come from: orders to the zygote, and word of those who have ended."""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


class Nursery:
    """Forks on request. `ended` has the exit codes of those who are no more; a kill is -9."""

    def __init__(self, zygote: subprocess.Popen[bytes], log: Path) -> None:
        self._zygote = zygote
        self._log = log
        self._pending = b""
        self._forked: list[int] = []
        self.ended: dict[int, int] = {}

    def fork(self, do: str, name: str, store: str, **more: Any) -> int:
        """A new process; its pid."""
        order = {"do": do, "name": name, "store": store, "log": str(self._log), **more}
        assert self._zygote.stdin is not None
        self._zygote.stdin.write(json.dumps(order).encode() + b"\n")
        self._zygote.stdin.flush()
        while not self._forked:
            self.listen(30.0)
        return self._forked.pop()

    def listen(self, seconds: float = 0.0) -> None:
        """Hear what the zygote has to say, and wait so long for it."""
        assert self._zygote.stdout is not None
        handle = self._zygote.stdout.fileno()
        if not select.select([handle], [], [], seconds)[0]:
            return
        got = os.read(handle, 65536)
        assert got, "the zygote is gone"
        *lines, self._pending = (self._pending + got).split(b"\n")
        for line in map(json.loads, lines):
            if "forked" in line:
                # The kernel gives pids again.
                self.ended.pop(line["forked"], None)
                self._forked.append(line["forked"])
            elif "ended" in line:
                self.ended[line["ended"]] = line["code"]


@contextmanager
def nursery(ledger: Path, log: Path, program: str = "tests.chaos.storm.work") -> Iterator[Nursery]:
    """As long as this lasts; then whoever is left goes too."""
    # Few connections each: to open them is most of what a new worker costs a server.
    own = {"STORM_LEDGER": str(ledger), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "HOLDFAST_POOL_SIZE": "3"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")} | own
    command = [sys.executable, "-m", program]
    with log.open("ab") as errors:
        zygote = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, env=environment
        )
    try:
        it = Nursery(zygote, log)
        it.listen(60.0)
        yield it
    finally:
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        before = _used()
        zygote.stdin.close()
        zygote.wait(30)
        zygote.stdout.close()
        print(f"its workers and producers took {_used() - before:.0f} s of CPU")


def _used() -> float:
    """Of the processes that have ended and were waited for, and theirs."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
