"""Outcomes of one run of a job, as the worker passes them to the store."""

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
    """The run crashed its own process: it counts towards the crash cap."""
    suspect: bool = False
    """True if it runs in isolation from now on; False leaves that unchanged."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It failed permanently. `kind` says why: exhausted, permanent, timeout, worker_lost, undecodable, aged_out, …"""

    kind: str
    error: str
    convicts: bool = False


@dataclass(frozen=True, slots=True)
class Snoozed:
    """It asks to run again after `delay` µs. Uses no attempt."""

    delay: int
    reason: str = "snooze"
    """Or `sleep`, in the middle of a durable task."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """It waits without an owner, and resumes in the same attempt."""

    wait: Wait


@dataclass(frozen=True, slots=True)
class Throttled:
    """An external limit refused it; it runs again after `delay` µs. Uses no attempt."""

    delay: int
    error: str
    cools: bool = False
    """True if the job's queue should pause meanwhile."""


@dataclass(frozen=True, slots=True)
class Parked:
    """It cannot run until a person acts, such as by renewing a credential. Uses no attempt."""

    reason: str
    error: str
    began: bool = True
    """True if its handler was started."""


@dataclass(frozen=True, slots=True)
class Released:
    """It was released unfinished: ready at once, without using an attempt. `reason`: shutdown, orphan, fenced."""

    reason: str
    began: bool = True


@dataclass(frozen=True, slots=True)
class Rerouted:
    """This worker cannot run it; it moves to a route that fewer workers serve, without using an attempt."""

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
    """The outcome is stored; `state` is the job's new state. `again`: it had been stored before."""

    state: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The caller no longer owned the job, and nothing was changed."""


Verdict: TypeAlias = Recorded | Lost
