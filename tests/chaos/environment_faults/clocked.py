"""Workers whose wall clock a test sets forward and back, by a file; what is measured is real time.

HOLDFAST_TEST_STEPS names the file. HOLDFAST_TEST_WHOSE says whose clock it is: `host`, that of the machine they run on,
which is also the clock of a SQLite store but not that of a server; or `store`, the clock of the store itself.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

import holdfast
from holdfast.clock import SECOND, SystemClock
from tests.chaos.environment_faults import tasks


class Offset:
    """Seconds by which the clock is wrong, shared by every process that maps the file."""

    def __init__(self, path: str | Path) -> None:
        found = Path(path)
        if not found.exists():
            found.write_bytes(struct.pack("<q", 0))
        with found.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8)

    def now(self) -> int:
        (offset,) = struct.unpack("<q", self._memory[:8])
        return time.time_ns() // 1000 + int(offset)

    def step(self, seconds: float) -> None:
        (offset,) = struct.unpack("<q", self._memory[:8])
        self._memory[:8] = struct.pack("<q", offset + round(seconds * SECOND))


class HostClock(SystemClock):
    """The machine's clock, set wrong. A server has its own."""

    def __init__(self, offset: Offset) -> None:
        self._offset = offset

    def now(self) -> int:
        return self._offset.now()


class StoreClock:
    """The clock of the store, set wrong for all who use it."""

    def __init__(self, offset: Offset) -> None:
        self._offset = offset

    def now(self) -> int:
        return self._offset.now()

    def monotonic(self) -> float:
        return time.monotonic()


def make(app: holdfast.App) -> holdfast.App:
    for name, task in tasks.app.tasks.items():
        assert task.fn is not None
        own = task.task_options
        app.task(name=name, queue=own.queue, max_attempts=own.max_attempts, retry=own.retry)(task.fn)

    @app.every(60, missed="all", max_missed=1000, cooldown=0)
    async def minutely() -> None: ...

    return app


def clock_of(whose: str, path: str | Path) -> HostClock | StoreClock:
    return {"host": HostClock, "store": StoreClock}[whose](Offset(path))


if "HOLDFAST_TEST_STEPS" in os.environ:
    app = make(holdfast.App(clock=clock_of(os.environ["HOLDFAST_TEST_WHOSE"], os.environ["HOLDFAST_TEST_STEPS"])))
