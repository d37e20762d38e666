"""Whether a killed worker loses jobs: one is killed with SIGKILL in the middle, another takes its place."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from ..measure import poll_until
from .stage import Stage, Watcher, kill, stop
from .trials import await_notes, fill

JOBS: Final = 200
SECONDS: Final = 2.0
"""How long all jobs would take."""
NUDGE: Final = 12.0
"""Seconds between new jobs that come meanwhile."""
LONGEST: Final = 300.0
"""Seconds for the second worker, as long as something moves."""


@dataclass(frozen=True, slots=True)
class Killed:
    """What became of the jobs."""

    jobs: int
    in_flight: int
    """Begun and not ended when the worker was killed."""
    lost: int
    """Never ran to their end, and the store knows nothing unfinished any more."""
    stuck: int
    """Never ran to their end; the store shows unfinished ones, and nothing has moved for the time of the wait."""
    repeated: int
    """Ran to their end more than once."""
    seconds: float
    """Until everything that could be done was done, from the start of the second worker."""

    def words(self) -> str:
        if self.lost:
            return f"loses {self.lost} of {self.in_flight} in flight"
        if self.stuck:
            return f"{self.stuck} stuck after {self.seconds:.0f} s"
        again = f", {self.repeated} ran twice" if self.repeated else ""
        return f"loses none; {self.seconds:.0f} s{again}"


def kill_in_the_middle(stage: Stage) -> Killed:
    """Each job lasts so long that the worker has all its slots full when it is killed."""
    stage = replace(stage, work=SECONDS * min(stage.entry.slots, JOBS // 4) / JOBS)
    fill(stage, JOBS)
    worker = stage.start()
    await_notes(stage, [worker], JOBS // 2)
    # In the middle of what runs now.
    time.sleep(stage.work / 2)
    poll_until(lambda: bool(_in_flight(stage)), pause=0.001, limit=10)
    kill(worker)
    in_flight = _in_flight(stage)
    start = time.monotonic()
    second = stage.start()
    try:
        with stage.watcher() as watcher:
            left = _await_rest(stage, watcher, start)
    finally:
        stop(second)
    times = Counter(_ended(stage))
    missing = JOBS - len(times)
    return Killed(
        jobs=JOBS,
        in_flight=in_flight,
        lost=0 if left else missing,
        stuck=missing if left else 0,
        repeated=sum(1 for often in times.values() if often > 1),
        seconds=time.monotonic() - start,
    )


def _ended(stage: Stage) -> list[int]:
    """Without those that came later."""
    return [number for number in stage.ends() if number <= JOBS]


def _in_flight(stage: Stage) -> int:
    return len({number for number, _ in stage.notes()} - set(stage.ends()))


def _await_rest(stage: Stage, watcher: Watcher, start: float) -> int:
    """Until all have ended, or the store is empty, or nothing moves for long; how many are unfinished."""
    moved, seen = start, stage.count()
    nudged = start
    while time.monotonic() < min(moved + stage.entry.wait, start + LONGEST):
        if stage.count() != seen:
            moved, seen = time.monotonic(), stage.count()
        left = watcher.unfinished()
        if len(set(_ended(stage))) >= JOBS and not left:
            return 0
        if left and time.monotonic() > nudged + NUDGE:
            # In real life jobs keep coming, and some peers look for lost ones only then.
            nudged = time.monotonic()
            stage.call("delays", 2)
            seen = stage.count()
        # A worker may take a few seconds to start, and one that has just taken a job has not noted it yet.
        if not left and time.monotonic() > moved + 5 + 2 * stage.work:
            return 0
        time.sleep(0.1)
    return watcher.unfinished()
