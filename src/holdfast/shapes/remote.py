"""Responses to remote workers: jobs under handles, and the results of their reports."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..model.remote import Beaten, Finished, LeasedJob, Registered, Waited
from ..model.values import instant_of


class WorkerRegistered(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is known now. `lease` seconds after its last sign of life it is given up, its jobs are rescued."""

    worker: str
    lease: float
    beat_every: float


class Leased(msgspec.Struct, frozen=True, kw_only=True):
    """A job in the hands of a worker. Every call about this run needs its `handle`, as it is."""

    handle: str
    id: str
    task: str
    queue: str
    tenant: str
    arguments: dict[str, Any]
    attempt: int
    max_attempts: int | None
    generation: int
    timeout: float | None
    deadline: datetime | None
    tags: list[str]
    trace: str | None
    flow: str | None
    priority: int
    created_at: datetime | None


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that may start now; none where none came in time."""

    jobs: list[Leased]


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A job that the store thinks a worker runs."""

    handle: str
    id: str
    cancel_requested: bool


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that a worker owns, and those of the handles it named that it no longer owns."""

    worker: str
    jobs: list[Held]
    cancelled: list[str]
    lost: list[str]


class RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The store has the outcome: `state` is where the job went. `again`: it was recorded before.

    `delay` is in seconds, where this made the job wait before its next run.
    """

    job_id: str
    state: str
    again: bool
    delay: float | None


class RunWaited(msgspec.Struct, frozen=True, kw_only=True):
    """With `state` running the answer is here; with suspended the job comes back by a later claim."""

    job_id: str
    state: str
    how: str
    value: Any
    token: str | None
    expires_at: datetime | None
    again: bool


class StreamEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the job's stream."""

    cursor: str


class SummaryVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The version of the job's summary now."""

    version: int


class RunSpent(msgspec.Struct, frozen=True, kw_only=True):
    """The budget that was charged; `again` is true if it was charged before under the same key."""

    budget: str
    again: bool


class HandedBack(msgspec.Struct, frozen=True, kw_only=True):
    """The number of jobs that a worker still held when it left."""

    worker: str
    released: int


def of_registered(worker: Registered) -> WorkerRegistered:
    return WorkerRegistered(worker=worker.worker, lease=worker.lease, beat_every=worker.beat_every)


def of_leased(job: LeasedJob) -> Leased:
    return Leased(
        handle=job.handle,
        id=job.id,
        task=job.task,
        queue=job.queue,
        tenant=job.tenant,
        arguments=job.arguments,
        attempt=job.attempt,
        max_attempts=job.max_attempts or None,
        generation=job.generation,
        timeout=job.timeout,
        deadline=instant_of(job.deadline),
        tags=list(job.tags),
        trace=job.trace,
        flow=job.flow,
        priority=job.priority,
        created_at=instant_of(job.created_at),
    )


def of_beaten(beaten: Beaten) -> Beat:
    held = [Held(handle=job.handle, id=job.id, cancel_requested=bool(job.cancel_requested)) for job in beaten.jobs]
    return Beat(worker=beaten.worker, jobs=held, cancelled=list(beaten.cancelled), lost=list(beaten.lost))


def of_finished(finished: Finished) -> RunEnded:
    return RunEnded(job_id=finished.job_id, state=finished.state, again=finished.again, delay=finished.delay)


def of_waited(waited: Waited) -> RunWaited:
    return RunWaited(
        job_id=waited.job_id,
        state=waited.state,
        how=waited.how,
        value=waited.value,
        token=waited.token,
        expires_at=waited.expires_at,
        again=waited.again,
    )
