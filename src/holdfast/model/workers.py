"""A worker process as the store knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from .values import Instant

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
class WorkerRecord:
    """A worker's row. Instants and the lease are microseconds."""

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

    @property
    def shown_state(self) -> str:
        """The state as it is shown: a worker whose lease has expired is "lost", whatever its row says."""
        return "lost" if self.is_expired else self.state


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A registered worker. The lease is in seconds."""

    id: str
    name: str
    host: str
    pid: int
    state: str
    """alive, stopping, dead, or lost if its lease has expired."""
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    concurrency: int
    capabilities: tuple[str, ...]
    resident: tuple[str, ...]
    """The affinities that it has loaded, the last used first."""
    versions: dict[str, str]
    version: str
    started_at: Instant
    beat_at: Instant
    lease: float
    lease_until: Instant
    running: int
    """Jobs that it runs."""
    oldest: tuple[str, ...]
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
