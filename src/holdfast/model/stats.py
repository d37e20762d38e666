"""Numbers about queues, tasks, minutes, errors, workers and the store. Durations are seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from .values import Instant

MINUTE: Final = 60_000_000

LABELS: Final = (
    "waiting", "delayed", "retrying", "throttled", "parked", "running", "suspended", "blocked",
    "succeeded", "failed", "cancelled", "expired", "skipped",
)  # fmt: skip
"""Labels of jobs, as people see them: states, and the reasons for which a ready job waits."""

COUNTERS: Final = (
    "enqueued", "started", "succeeded", "failed", "retried", "throttled", "cancelled", "expired", "skipped",
)  # fmt: skip
LATENCIES: Final = ("wait", "run", "total")
"""Durations: from due to started, from started to ended, from enqueued to ended."""


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of a queue."""

    name: str
    state: str
    counts: dict[str, int]
    """The number of jobs with each label."""
    estimated: tuple[str, ...]
    """The labels whose count is not exact: of live jobs there are at least as many."""
    oldest_due_age: float | None
    """Seconds that the oldest job that could start now has waited; None if there is none."""
    running: int
    slots: int
    """Slots of the live workers that serve it."""
    workers: int
    utilisation: float | None
    """Running jobs per slot of the workers that serve the queue; None if none does."""
    is_paused: bool = msgspec.field(name="paused")
    cooling: float
    """Seconds until it resumes after it was throttled."""
    capacity: int | None
    """Its concurrency limit in the cluster; None is no limit."""

    @classmethod
    def of(
        cls,
        name: str,
        *,
        state: str = "active",
        counts: Mapping[str, int] = MappingProxyType({}),
        estimated: Iterable[str] = (),
        oldest_due_age: float | None = None,
        slots: int = 0,
        workers: int = 0,
        cooling: float = 0.0,
        capacity: int | None = None,
    ) -> QueueStats:
        """Describe a queue by its facts. A label that is missing in `counts` has no jobs."""
        running = counts.get("running", 0)
        return cls(
            name=name,
            state=state,
            counts={label: counts.get(label, 0) for label in LABELS},
            estimated=tuple(sorted(estimated)),
            oldest_due_age=oldest_due_age,
            running=running,
            slots=slots,
            workers=workers,
            utilisation=running / slots if slots else None,
            is_paused=state in ("paused", "disabled"),
            cooling=cooling,
            capacity=capacity,
        )

    def count(self, label: str) -> int:
        return self.counts.get(label, 0)


class MetricPoint(msgspec.Struct, frozen=True):
    """The value of one metric in one closed minute of one queue. Of a counter only `count` is there."""

    queue: str
    metric: str
    minute: Instant
    count: int
    sum: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class WorstMinute(msgspec.Struct, frozen=True, kw_only=True):
    """A latency in the worst minute, in seconds."""

    minute: Instant
    count: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a queue in the last closed minutes."""

    queue: str
    per_minute: dict[str, float]
    """By counter; a counter that is missing is 0."""
    worst_minute: dict[str, WorstMinute]
    """By the 99th percentile: percentiles of several minutes cannot be combined."""


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of durations, in seconds. Percentiles are off by a fifth at most; mean and max are exact."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class TaskStats(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one task in the last closed minutes."""

    task: str
    counts: dict[str, int]
    """In all of them, by counter."""
    failure_rate: float | None
    """The share of runs that failed, permanently or to be retried; None if none ended."""
    run: Latency | None
    """From started to ended, of the last run of the jobs that ended; None if none did."""
    wait: Latency | None
    """From due to started, of the same runs."""

    def count(self, counter: str) -> int:
        return self.counts[counter]

    @property
    def runs(self) -> int:
        """Runs that started."""
        return self.count("started")


OPERATION_BOUNDS: Final = (
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
)  # fmt: skip
"""Upper bounds of the durations of store operations, in seconds."""


@dataclass(frozen=True, slots=True)
class OperationStats:
    """Durations, in seconds, of one operation of the store in this process since the store was opened."""

    operation: str
    outcome: str
    """ok, or error if the store failed. A refusal, such as for an unknown job, is ok."""
    count: int
    sum: float
    mean: float
    p50: float
    p95: float
    p99: float
    """Percentiles are estimated from `buckets`."""
    max: float
    buckets: tuple[int, ...]
    """Counts by duration: up to each of `OPERATION_BOUNDS` and longer than the one before; the last is beyond all."""


class LimitStats(msgspec.Struct, frozen=True, kw_only=True):
    """A limit and its use."""

    kind: str
    """concurrency, rate or breaker. Of a breaker, failures in a row are in use; one that is not closed is full."""
    key: str
    used: float
    capacity: float
    waiting: int
    """Jobs that are parked behind it."""
    saturation: float
    """The share of it that is in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The health of a worker's process, as it reports it."""

    cpu: float
    """The share of one core that it used."""
    rss: int
    """Bytes of memory."""
    claims: int = 0
    """Claims in the last minute."""
    claim_p50: float | None = None
    claim_p99: float | None = None
    waiting: int = 0
    """Pending writes in this process."""
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStats:
    """A worker, its state and its health."""

    id: str
    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    state: str
    """alive, stopping, dead, or lost if its lease has expired."""
    slots: int
    running: int
    """Jobs that it runs."""
    oldest: tuple[str, ...]
    """The ids of the few that have run longest."""
    beat_age: float
    """Seconds since its last heartbeat."""
    vitals: Vitals | None

    @property
    def is_live(self) -> bool:
        return self.state == "alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """The database's health. None is what this database does not report."""

    backend: str
    bytes: int
    free_bytes: int | None = None
    """Bytes in empty pages that will be reused (SQLite)."""
    wal_bytes: int | None = None
    dead_rows: int | None = None
    """Old versions of rows that vacuum has yet to remove (Postgres; an estimate of the server's)."""
    live_rows: int | None = None
    oldest_transaction: float | None = None
    """Seconds since the oldest open transaction of this database began (Postgres)."""
    claims: int = 0
    """Claims in the last minute, of all workers."""
    claim_p50: float | None = None
    claim_p99: float | None = None
    """The worst worker's: percentiles of several cannot be combined."""
    writes_waiting: int = 0
    """The worst worker's."""


class HealthMinute(msgspec.Struct, frozen=True, kw_only=True):
    """The health of all worker processes and of the database in one minute. None: this database does not report it."""

    minute: Instant
    workers: int = 0
    cpu: float = 0.0
    """Cores in use, of all worker processes together."""
    rss: int = 0
    """Bytes of memory, of all worker processes together."""
    rss_max: int = 0
    """The largest process's."""
    claims: int = 0
    claim_p99: float | None = None
    writes_waiting: int = 0
    bytes: int = 0
    free_bytes: int | None = None
    dead_rows: int | None = None
    live_rows: int | None = None
    oldest_transaction: float | None = None
    wal_bytes: int | None = None
    """The write-ahead log's (SQLite)."""
    disk_free: int | None = None
    """Bytes that are free on the disk of the file (SQLite)."""
    pool_peak: int | None = None
    """The most connections in use at once, in the process that keeps the statistics (Postgres)."""
    pool_size: int | None = None
    """The most connections that it may have."""


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Errors that differ only in their time, numbers and addresses."""

    fingerprint: str
    task: str
    type: str
    message: str
    """Of the newest."""
    last_job: str
    first_seen: Instant
    last_seen: Instant
    count: int


class ErrorWhole(ErrorGroup, frozen=True, kw_only=True):
    """An error group with the traceback of its newest error."""

    traceback: str | None
    """None where the caller may not see payloads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRun:
    """One run that failed, and where its job is now."""

    at: int
    job_id: str
    epoch: int
    task: str
    fingerprint: str
    attempt: int
    outcome: str
    error: str
    """As it is stored."""
    state: str
    """Of the job, as it is now."""
    queue: str
    tenant: str
