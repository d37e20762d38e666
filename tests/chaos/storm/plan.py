"""How much of everything a storm shall do, and a log of what it did."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to reach. A storm lasts until all of it is reached, and paces everything else by its kills."""

    kills: int
    zombies: int
    jobs: int
    restarts: int = 0
    partitions: int = 0
    terminations: int = 0
    kills_per_second: float = 10.0
    workers: int = 11
    elders: int = 3
    """Of the workers, those who are seldom touched: somebody must have been awake for a lease to judge of others."""
    frozen_at_once: int = 5
    concurrency: int = 4
    lease: float = 2.0
    lines: int = 1
    """Ways to the store that can be cut one by one."""


@dataclass(frozen=True, slots=True)
class Blow:
    """A process was killed, or frozen for a while."""

    pid: int
    at: float
    until: float = 0.0
    lost: bool = True
    """Whether it was given up before it could go on."""


@dataclass(slots=True)
class Diary:
    """What was done, and when; by the wall clock, as in the ledger."""

    log: Path
    kills: list[Blow] = field(default_factory=list)
    freezes: list[Blow] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)
    """When somebody could not reach the store, through no fault of theirs."""
    counts: dict[str, int] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)
    """The process of each identity that was seen in the store."""

    def note(self, what: str, subject: object = "") -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        with self.log.open("a") as log:
            log.write(f"{time.time():.3f} {what} {subject}\n")

    @property
    def zombies(self) -> int:
        return sum(freeze.lost for freeze in self.freezes)
