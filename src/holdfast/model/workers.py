"""A worker process as the store knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MOST_OLDEST: Final = 5
"""The most running jobs that are listed for a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """A worker to register. `lease` is in microseconds."""

    id: str
    name: str
    host: str
    pid: int
    process_key: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    concurrency: int
    version: str
    lease: int
    capabilities: tuple[str, ...] = ()
    resident: tuple[str, ...] = ()
    """The affinities that it has loaded, the last used first."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """By task, if one is declared."""
    holder: str = ""
    """The only holder that may act as this worker in the lease API, as in `Caller.holder`."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A registered worker. Instants and the lease are microseconds."""

    id: str
    name: str
    host: str
    pid: int
    process_key: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    concurrency: int
    version: str
    state: str
    started_at: int
    beat_at: int
    lease: int
    lease_until: int
    is_expired: bool
    capabilities: tuple[str, ...] = ()
    resident: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    running: int = 0
    """Jobs that it runs; counted only when workers are listed."""
    oldest: tuple[str, ...] = ()
    """The ids of those that have run longest, at most `MOST_OLDEST`."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A job that a worker runs, according to the store."""

    id: str
    epoch: int
    claim: str
    cancel_requested: bool


@dataclass(frozen=True, slots=True)
class Rescue:
    """The result of one page of a rescue."""

    rescued: tuple[str, ...]
    more: bool
    """True if the worker may own further jobs."""
