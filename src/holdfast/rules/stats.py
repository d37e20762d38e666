"""Turn the store's counts into statistics: labels, queues, percentiles."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

from ..clock import SECOND
from ..model.limits import Lane, queue_lane
from ..model.stats import COUNTERS, Latency, QueueStats, TaskStats
from ..model.workers import WorkerRecord


@dataclass
class QueueCounts:
    """The counts of one queue so far."""

    labels: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    estimated: set[str] = field(default_factory=set)
    oldest_due: int | None = None

    def add(self, label: str, jobs: int, due: int | None = None) -> None:
        self.labels[label] += jobs
        if due is not None:
            self.oldest_due = due if self.oldest_due is None else min(self.oldest_due, due)


class Spread(msgspec.Struct, omit_defaults=True):
    """A distribution of durations in microseconds. Several can be added, unlike percentiles."""

    sum: int = 0
    max: int = 0
    counts: dict[int, int] = {}
    """The number of durations by their value, which is rounded by a fifth at most."""

    def put(self, value: int, count: int, total: int, most: int) -> None:
        """Count durations that are rounded to `value`, with their sum and the greatest of them."""
        self.counts[value] = self.counts.get(value, 0) + count
        self.sum += total
        self.max = max(self.max, most)

    def add(self, other: Spread) -> None:
        for value, count in other.counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
        self.sum += other.sum
        self.max = max(self.max, other.max)

    def latency(self) -> Latency | None:
        """Return percentiles by the nearest rank, and the mean; None if there are no values."""
        total = sum(self.counts.values())
        if not total:
            return None
        p50, p95, p99 = (min(self._at(math.ceil(share * total)), self.max) / SECOND for share in (0.5, 0.95, 0.99))
        return Latency(total, self.sum / total / SECOND, p50, p95, p99, self.max / SECOND)

    def _at(self, rank: int) -> int:
        reached = 0
        for value, count in sorted(self.counts.items()):
            reached += count
            if reached >= rank:
                return value
        return self.max


class TaskFigures(msgspec.Struct, omit_defaults=True):
    """The figures of one task in one minute, as they are stored. Figures of several minutes can be added."""

    counts: dict[str, int] = {}
    """By counter."""
    run: Spread = msgspec.field(default_factory=Spread)
    wait: Spread = msgspec.field(default_factory=Spread)

    def add(self, other: TaskFigures) -> None:
        for counter, count in other.counts.items():
            self.counts[counter] = self.counts.get(counter, 0) + count
        self.run.add(other.run)
        self.wait.add(other.wait)

    def stats(self, task: str) -> TaskStats:
        counts = {counter: self.counts.get(counter, 0) for counter in COUNTERS}
        failed = counts["failed"] + counts["retried"]
        ended = failed + counts["succeeded"]
        return TaskStats(
            task=task, counts=counts, failure_rate=failed / ended if ended else None, run=self.run.latency(),
            wait=self.wait.latency(),
        )  # fmt: skip


def label_of_later(reason: str | None) -> str:
    """Return the label of a ready job that is due later."""
    if reason in ("retry", "rescue"):
        return "retrying"
    return "throttled" if reason == "throttle" else "delayed"


@dataclass(frozen=True, slots=True)
class Switch:
    """The settings of a queue that bound its claims."""

    state: str = "active"
    cooling: int | None = None
    """Microseconds until it resumes."""
    max_workers: int | None = None
    """Its concurrency limit over all workers."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The facts beside the counts from which queues are described."""

    now: int
    switches: Mapping[str, Switch]
    """By queue."""
    workers: Sequence[WorkerRecord]
    lanes: Sequence[Lane]


def queue_stats(counts: Mapping[str, QueueCounts], around: Surroundings) -> list[QueueStats]:
    """Return every queue that has jobs, settings or a live worker, by name."""
    live = [worker for worker in around.workers if is_live(worker)]
    names = {*counts, *around.switches, *(queue for worker in live for queue in worker.queues)}
    capacities = {lane.key: lane.capacity for lane in around.lanes}
    return [_queue(name, counts.get(name) or QueueCounts(), around, live, capacities) for name in sorted(names)]


def is_live(worker: WorkerRecord) -> bool:
    return worker.state == "alive" and not worker.is_expired


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value at the nearest rank; None if there are no values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def quantile(bounds: Sequence[float], counts: Sequence[int], most: float, share: float) -> float:
    """Return the value at the nearest rank, from counts by upper bound and one more for values beyond.

    The values of a bucket are assumed to be evenly spread.
    """
    rank, reached, low = math.ceil(share * sum(counts)), 0, 0.0
    for bound, count in zip((*bounds, most), counts, strict=True):
        high = min(bound, most)
        if count and reached + count >= rank:
            return low + (high - low) * (rank - reached) / count
        reached, low = reached + count, high
    return most


def worst(values: Iterable[float | None]) -> float | None:
    """Return the greatest of the known values."""
    return max((value for value in values if value is not None), default=None)


def least(*values: int | None) -> int | None:
    """Return the smallest of the given values."""
    return min((value for value in values if value is not None), default=None)


def _queue(
    name: str,
    found: QueueCounts,
    around: Surroundings,
    live: Sequence[WorkerRecord],
    capacities: Mapping[str, int | None],
) -> QueueStats:
    switch = around.switches.get(name) or Switch()
    serving = [worker for worker in live if name in worker.queues]
    age = None if found.oldest_due is None else max(0, around.now - found.oldest_due) / SECOND
    return QueueStats.of(
        name,
        state=switch.state,
        counts=found.labels,
        estimated=found.estimated,
        oldest_due_age=age,
        slots=least(sum(worker.concurrency for worker in serving), switch.max_workers) or 0,
        workers=len(serving),
        cooling=max(0, switch.cooling or 0) / SECOND,
        capacity=least(capacities.get(queue_lane(name)), switch.max_workers),
    )


_FRAMES: Final = 20
"""Frames counted from the end, where the error happened: the beginning of a long traceback may be cut off."""
_FRAME: Final = re.compile(r'^\s*(?:\|\s*)*File "(?P<path>[^"]*)", line \d+(?:, in (?P<name>.*))?$')
_RAISED: Final = re.compile(r"^(?:\|\s*)*(?:\+ )?(?P<type>[A-Za-z_][\w.]*)(?:: .*)?$")
_LINK: Final = re.compile(r"^(During handling of|The above exception was)")
_OWN: Final = re.compile(r"(^|[/\\])holdfast[/\\](worker[/\\]|tasks[/\\]child_entry\.py)")

_VARIABLE: Final = re.compile(
    r"""(?P<q>['"]).*?(?P=q)"""  # quoted text is mostly a value
    r"|\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
    r"|\b0x[0-9a-fA-F]+\b"
    r"|\b(?=\w*\d)[\w-]{16,}\b"
    r"|(?:[A-Za-z]:)?(?:[/\\][\w.@-]+){2,}"
    r"|\d+(?:\.\d+)*"
)
_COUNTED: Final = re.compile(r"<locals>\.|<lambda>|\b\d+\b")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A kind of error, with this one as its sample."""

    key: str
    type: str
    message: str
    traceback: str


def fingerprint(task: str, error: str) -> Fingerprint:
    """Return the kind of a stored error; one that is not JSON is identified by its text."""
    record = _decoded(error)
    kind, message, trace = (_text(record, name) for name in ("type", "message", "traceback"))
    way = normalised_traceback(trace) if trace else ""
    # Without a traceback only the message distinguishes errors.
    parts = (task, kind, way or normalised_message(message))
    key = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]
    return Fingerprint(key, kind or "unknown", message, trace)


@lru_cache(256)
def normalised_traceback(trace: str) -> str:
    """Return the files and functions of a traceback and the types raised, and nothing else."""
    steps: list[str] = []
    for line in trace.splitlines():
        if frame := _FRAME.match(line):
            if not _OWN.search(frame["path"]):
                steps.append(f"{_file(frame['path'])}:{_COUNTED.sub('', frame['name'] or '')}")
        elif _LINK.match(line):
            steps.append("--")
        elif not line.startswith(" ") and (raised := _RAISED.match(line)):
            steps.append(f"!{raised['type']}")
    return "\n".join(_without_repeats(steps)[-_FRAMES:])


def normalised_message(message: str) -> str:
    """Return a message without its values."""
    return " ".join(_VARIABLE.sub("?", message).split())


def _without_repeats(steps: list[str]) -> list[str]:
    """Collapse a recursion to one step, however deep it went."""
    return [step for i, step in enumerate(steps) if i == 0 or step != steps[i - 1]]


def _file(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _decoded(error: str) -> dict[str, Any]:
    try:
        record = json.loads(error)
    except ValueError:
        return {"message": error}
    return record if isinstance(record, dict) else {"message": error}


def _text(record: dict[str, Any], name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""
