"""Schedules for real worker processes, on a clock that the test moves by a file."""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

import holdfast


class FileClock:
    """Eight bytes in a file are the wall clock of every process; what is measured is real time."""

    def __init__(self, path: str) -> None:
        with Path(path).open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8)

    @staticmethod
    def create(path: Path, now: int) -> FileClock:
        path.write_bytes(struct.pack("<q", now))
        return FileClock(str(path))

    def now(self) -> int:
        (now,) = struct.unpack("<q", self._memory[:8])
        return int(now)

    def monotonic(self) -> float:
        return time.monotonic()

    def step(self, seconds: float) -> None:
        self._memory[:8] = struct.pack("<q", self.now() + round(seconds * 1_000_000))


def make(app: holdfast.App) -> holdfast.App:
    """What the code of this program says."""

    @app.cron("*/2 * * * *", zone="Europe/Paris", missed="all", max_missed=1000)
    async def minutely() -> None:
        """Does nothing: that it runs is enough."""

    @app.cron("30 2 * * *", zone="Europe/Paris", missed="all", max_missed=1000)
    async def nightly() -> None: ...

    @app.every(97, missed="all", max_missed=1000, cooldown=0)
    async def beat() -> None: ...

    return app


if "HOLDFAST_TEST_CLOCK" in os.environ:
    app = make(holdfast.App(clock=FileClock(os.environ["HOLDFAST_TEST_CLOCK"])))
