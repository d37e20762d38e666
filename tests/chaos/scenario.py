"""A seeded run over all features whose every commit is kept: the files, and what was acknowledged by then."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.clock import ManualClock
from holdfast.errors import HoldfastError
from holdfast.storage.sqlite import SqliteStore

from .engine_ops import ENGINE
from .ledger import Line
from .operations import PUBLIC, Call
from .rare_ops import RARE
from .stage import Stage, furnish
from .wal import Recording

OPERATIONS = {**PUBLIC, **ENGINE, **RARE}
_REMOVED = ("done", "failed", "sent", "rejected", "waiting", "behind", "windowed")
"""Jobs that some operations remove on purpose."""
_SEGMENT = 600_000
"""Bytes of log after which it begins anew: SQLite reads all of it when it opens the files."""


@dataclass
class Segment:
    """A stretch of the run: its files, and the lines that were written when the log had so many bytes."""

    recording: Recording
    lines: list[tuple[int, Line]]
    now: int
    calls: list[str]


@dataclass
class Scenario:
    """The run, and what it was made with."""

    seed: int
    stage: Stage
    segments: list[Segment] = field(default_factory=list)

    @property
    def forgotten(self) -> frozenset[str]:
        return frozenset(self.stage.jobs[name] for name in _REMOVED)


def play(folder: Path, seed: int, length: int) -> Scenario:
    """Make one of everything, then call operations at random; some fail, as they may."""
    dice, clock = random.Random(seed), ManualClock()
    store = SqliteStore(folder / f"{seed}.db", clock=clock, durable=False)
    tape = _Tape(store, folder / f"{seed}.db", clock)
    tape.rewind()
    stage = furnish(store, clock, tape.note)
    for job_id in stage.jobs.values():
        tape.note("Q", job_id)
    scenario = Scenario(seed, stage, tape.segments)
    for _ in range(length):
        name = dice.choice(list(OPERATIONS))
        tape.calls.append(name)
        _call(stage, OPERATIONS[name])
        clock.advance(dice.choice((0, 0, 0, 1, 20, 40)))
        if tape.size() > _SEGMENT:
            tape.cut()
    tape.cut()
    store.close()
    return scenario


def _call(stage: Stage, call: Call) -> None:
    with suppress(HoldfastError):
        call(stage)


class _Tape:
    """Keeps the log of a store instead of moving it into the database."""

    def __init__(self, store: SqliteStore, path: Path, clock: ManualClock) -> None:
        self._session: Any = store._session()
        self._session._checkpointer = None
        self._path = path
        self._clock = clock
        self.segments: list[Segment] = []
        self.calls: list[str] = []
        self._lines: list[tuple[int, Line]] = []

    def size(self) -> int:
        log = self._path.with_name(f"{self._path.name}-wal")
        return log.stat().st_size if log.exists() else 0

    def note(self, mark: str, job_id: str, epoch: int = 0) -> None:
        self._lines.append((self.size(), Line(mark, job_id, epoch)))

    def cut(self) -> None:
        """What there is becomes a segment, and the log begins anew."""
        if self.size():
            log = self._path.with_name(f"{self._path.name}-wal").read_bytes()
            segment = Segment(Recording(self._base, log), self._lines, self._clock.now(), list(self.calls))
            self.segments.append(segment)
        self.rewind()

    def rewind(self) -> None:
        self._session._mover.execute("pragma wal_checkpoint(truncate)").fetchall()
        self._base = self._path.read_bytes()
        # All of what was noted so far is in the base.
        self._lines = [(0, line) for _, line in self._lines]
