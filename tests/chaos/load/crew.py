"""The workers of the load: some stay and are watched, others are killed every few seconds and replaced."""

from __future__ import annotations

import os
import signal
import time
from random import Random

from tests.chaos.storm.nursery import Nursery

CONCURRENCY = 20
SETTINGS = {
    "concurrency": CONCURRENCY, "lease": 5.0, "grace": 10.0,
    # What has ended goes soon, so that the store is as large after two minutes as after a day.
    "keep_succeeded": 20.0, "keep_failed": 20.0, "keep_events": 20.0, "prune_interval": 2.0,
}  # fmt: skip


class Crew:
    """Two that stay, two that fall."""

    def __init__(self, nursery: Nursery, store: str, dice: Random) -> None:
        self._nursery = nursery
        self._store = store
        self._dice = dice
        self._made = 0
        self.stay = [self._new() for _ in range(2)]
        self._fall = [self._new() for _ in range(2)]
        self._next = self._soon()
        self.kills = 0

    def watched(self) -> dict[str, int]:
        return {f"worker {n + 1}": pid for n, pid in enumerate(self.stay)}

    def strike(self) -> None:
        """Kill one if its time has come, and put another in its place. Nobody else may have ended."""
        self._nursery.listen()
        ended = {pid: self._nursery.ended[pid] for pid in (*self.stay, *self._fall) if pid in self._nursery.ended}
        assert not ended, f"workers have ended by themselves: {ended}"
        if time.monotonic() >= self._next:
            pid = self._fall.pop(0)
            os.kill(pid, signal.SIGKILL)
            self.kills += 1
            self._fall.append(self._new())
            self._next = self._soon()

    def stop(self, patience: float = 60.0) -> list[int]:
        """SIGTERM to all; their exit codes."""
        everybody = [*self.stay, *self._fall]
        for pid in everybody:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + patience
        while not all(pid in self._nursery.ended for pid in everybody) and time.monotonic() < deadline:
            self._nursery.listen(0.2)
        return [self._nursery.ended.get(pid, -1) for pid in everybody]

    def _soon(self) -> float:
        return time.monotonic() + self._dice.uniform(3.0, 5.0)

    def _new(self) -> int:
        self._made += 1
        return self._nursery.fork("work", f"load-{self._made}", self._store, settings=SETTINGS)
