"""Outcomes of one run of a job, as values that the worker hands to the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from .routing import Route
from .signals import Wait


class Done(msgspec.Struct, frozen=True):
    """Success. `result` is encoded."""

    result: str


@dataclass(frozen=True, slots=True)
class Retry:
    """It failed and is tried again after `delay` µs."""

    delay: int
    error: str
    outcome: str = "failed"
    """For the history: failed, timeout, crashed or lost."""
    convicts: bool = False
    """The run took its own process down: it counts towards the crash cap."""
    suspect: bool = False
    """It runs apart from now on. Until then a loss leaves that as it was."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It failed for good. `kind` says why: exhausted, permanent, timeout, worker_lost, undecodable, aged_out, …"""

    kind: str
    error: str
    convicts: bool = False


@dataclass(frozen=True, slots=True)
class Snoozed:
    """It asks to run again after `delay` µs. Costs no attempt."""

    delay: int
    reason: str = "snooze"
    """Or `sleep`, in the middle of a durable task."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """It waits, owned by nobody, and goes on in the same attempt. Costs nothing meanwhile."""

    wait: Wait


@dataclass(frozen=True, slots=True)
class Throttled:
    """A limit elsewhere refused it; again after `delay` µs. Costs no attempt."""

    delay: int
    error: str
    cools: bool = False
    """True if the job's queue should hand out nothing meanwhile."""


@dataclass(frozen=True, slots=True)
class Parked:
    """It cannot run until somebody acts, such as renewing a credential. Costs no attempt."""

    reason: str
    error: str
    began: bool = True
    """True if its handler was started."""


@dataclass(frozen=True, slots=True)
class Released:
    """It was handed back unfinished: ready at once, at no cost. `reason`: shutdown, orphan, fenced."""

    reason: str
    began: bool = True


@dataclass(frozen=True, slots=True)
class Rerouted:
    """This worker cannot run it; it goes to a route that fewer workers serve, at no cost."""

    route: Route
    reason: str
    deadline: int | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """It stopped because it was asked to."""

    reason: str


@dataclass(frozen=True, slots=True)
class Expired:
    """The job's deadline passed while it ran."""


Outcome: TypeAlias = (
    Done | Retry | Failed | Snoozed | Suspended | Throttled | Parked | Released | Rerouted | Cancelled | Expired
)


class Finish(msgspec.Struct, frozen=True):
    """An outcome with the proof of ownership that its write requires."""

    id: str
    epoch: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Recorded:
    """The store has the outcome; `state` is where the job went. `again`: it was there before."""

    state: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The caller no longer owned the job, and nothing was changed."""


Verdict: TypeAlias = Recorded | Lost
