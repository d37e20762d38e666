"""Queues in lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ...clock import SECOND
from ...model.answers import LATER
from ...model.stats import QueueStats
from ...model.webhooks import QUEUE as WEBHOOKS
from .activity import Activity, Timeline
from .addresses import queue_path

BARS: Final = 30
TONES: Final = {"active": "good", "paused": "warn", "draining": "info", "disabled": "bad"}
LIVE: Final = ("waiting", "delayed", "retrying", "throttled", "parked", "running", "suspended", "blocked")
_HELD: Final = ("parked", "suspended", "blocked")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue in a list."""

    name: str
    path: str
    state: str
    tone: str
    is_unserved: bool
    """True if jobs are due and no live worker serves the queue."""
    is_cooling: bool
    waiting: int
    later: int
    held: int
    running: int
    failed: int
    about: frozenset[str]
    """The counts that are estimates."""
    slots: int
    workers: int
    capacity: int | None
    due_at: int | None
    """The time since when its oldest job could have started."""
    bars: list[int]
    """Finished runs, in equal parts of the window."""
    rate: float
    """Finished runs per minute, over the last few minutes."""
    failing: float | None


def rows_of(queues: Iterable[QueueStats], now: int, timeline: Timeline | None) -> list[QueueRow]:
    """Return the user's queues, and the built-in webhook queue if it was ever used; every worker serves that one."""
    shown = [queue for queue in queues if queue.name != WEBHOOKS or any(queue.counts.values())]
    return [row_of(queue, now, None if timeline is None else timeline.of(queue.name)) for queue in shown]


def row_of(queue: QueueStats, now: int, did: Activity | None) -> QueueRow:
    is_due = queue.oldest_due_age is not None
    return QueueRow(
        name=queue.name,
        path=queue_path(queue.name),
        state=queue.state,
        tone=TONES.get(queue.state, "plain"),
        is_unserved=is_due and not queue.workers and not queue.is_paused and did is not None,
        is_cooling=queue.cooling > 0 and queue.state == "active",
        waiting=queue.count("waiting"),
        later=sum(queue.count(label) for label in LATER),
        held=sum(queue.count(label) for label in _HELD),
        running=queue.running,
        failed=queue.count("failed"),
        about=_about(queue),
        slots=queue.slots,
        workers=queue.workers,
        capacity=queue.capacity,
        due_at=due_at(queue, now),
        bars=[] if did is None else grouped(did.count("succeeded", "failed", "retried"), BARS),
        rate=0.0 if did is None else did.last("succeeded", "failed"),
        failing=None if did is None else did.failing(),
    )


def due_at(queue: QueueStats, now: int) -> int | None:
    """Return the due time of the oldest job, rounded to the second, so that a live page does not differ by its age
    alone.
    """
    if queue.oldest_due_age is None:
        return None
    return round((now - queue.oldest_due_age * SECOND) / SECOND) * SECOND


def unfinished(queues: Iterable[QueueStats]) -> int:
    """Return the number of unfinished jobs."""
    return sum(queue.count(label) for queue in queues for label in LIVE)


def grouped(values: Sequence[int], parts: int) -> list[int]:
    """Return the values in fewer, equal parts."""
    size = max(1, -(-len(values) // parts))
    return [sum(values[i : i + size]) for i in range(0, len(values), size)]


def _about(queue: QueueStats) -> frozenset[str]:
    found = {"waiting", "running", "failed"} & queue.estimated
    found |= {"later"} if queue.estimated & set(LATER) else set[str]()
    return frozenset(found | ({"held"} if queue.estimated & set(_HELD) else set[str]()))
