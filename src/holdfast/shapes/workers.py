"""Workers, as they registered and as they fare."""

from __future__ import annotations

import msgspec

from ..clock import SECOND
from ..model.actions import Buried as BuriedRecord
from ..model.stats import Vitals
from ..model.stats import WorkerStats as StatsRecord
from ..model.values import Instant, instant_of
from ..model.workers import Worker as WorkerRecord
from .bulk import Changed


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A registered worker. The lease is in seconds; one whose lease has run out is "lost".

    `running` is how many jobs it runs, `oldest` are the ids of the few that it has run for longest.
    """

    id: str
    name: str
    host: str
    pid: int
    state: str
    queues: list[str]
    tasks: list[str]
    concurrency: int
    capabilities: list[str]
    resident: list[str]
    versions: dict[str, str]
    version: str
    started_at: Instant | None
    beat_at: Instant | None
    lease: float
    lease_until: Instant | None
    running: int
    oldest: list[str]


class WorkerStats(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, whether it lives, and how its process fares, as it says of itself."""

    id: str
    name: str
    host: str
    pid: int
    queues: list[str]
    state: str
    slots: int
    running: int
    oldest: list[str]
    beat_age: float
    vitals: Vitals | None


class Buried(Changed, frozen=True, kw_only=True):
    """A worker that was declared dead, and how many of its jobs were rescued."""

    worker: str
    rescued: int
    again: bool


def of_worker(worker: WorkerRecord) -> Worker:
    return Worker(
        id=worker.id,
        name=worker.name,
        host=worker.host,
        pid=worker.pid,
        state=worker_state(worker),
        queues=list(worker.queues),
        tasks=list(worker.tasks),
        concurrency=worker.concurrency,
        capabilities=list(worker.capabilities),
        resident=list(worker.resident),
        versions=dict(worker.versions),
        version=worker.version,
        started_at=instant_of(worker.started_at),
        beat_at=instant_of(worker.beat_at),
        lease=worker.lease / SECOND,
        lease_until=instant_of(worker.lease_until),
        running=worker.running,
        oldest=list(worker.oldest),
    )


def of_worker_stats(worker: StatsRecord) -> WorkerStats:
    return WorkerStats(
        id=worker.id,
        name=worker.name,
        host=worker.host,
        pid=worker.pid,
        queues=list(worker.queues),
        state=worker.state,
        slots=worker.slots,
        running=worker.running,
        oldest=list(worker.oldest),
        beat_age=worker.beat_age,
        vitals=worker.vitals,
    )


def of_buried(done: BuriedRecord) -> Buried:
    return Buried(changed=not done.again, worker=done.worker, rescued=done.rescued, again=done.again)


def worker_state(worker: WorkerRecord) -> str:
    """A worker whose lease has run out is "lost", whatever it last said of itself."""
    return "lost" if worker.is_expired else worker.state
