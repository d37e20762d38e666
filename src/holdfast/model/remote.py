"""Requests and responses of the lease API, for remote workers: jobs under handles, and the ends of their runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from .values import Instant

LONGEST_WAIT: Final = 30.0
"""Seconds that one claim may wait for jobs."""
MOST_CLAIMED: Final = 1_000
"""Jobs that one claim takes at most."""
MOST_FRAMES: Final = 2_000
"""Frames of one call."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller of the lease API. A worker belongs to the holder that registered it."""

    holder: str = ""
    """The id of a token, or another identification of a caller over HTTP; "" is the app's own process."""
    actor: str = "app"
    queues: tuple[str, ...] = ()
    """The names that its workers may serve; () is all."""
    tasks: tuple[str, ...] = ()


OWN_PROCESS: Final = Caller()


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A registered worker."""

    worker: str
    lease: float
    """This long after its last beat or claim it is declared lost, and its jobs are rescued."""
    beat_every: float


class LeasedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a remote worker has claimed."""

    handle: str
    """The text that every call about this run needs."""
    id: str
    task: str
    queue: str
    tenant: str
    arguments: dict[str, Any]
    """By the names of the task's parameters, with the results of other jobs filled in."""
    attempt: int
    max_attempts: int | None
    """None is no limit."""
    generation: int
    timeout: float | None
    """The longest time that the run may take; the worker ends it."""
    deadline: Instant | None
    """The time at which the job expires."""
    tags: tuple[str, ...]
    trace: str | None
    flow: str | None
    priority: int
    created_at: Instant


class HeldJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a worker runs, according to the store."""

    handle: str
    id: str
    cancel_requested: bool


class Beaten(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a beat."""

    worker: str
    jobs: tuple[HeldJob, ...]
    """All that it owns. Jobs it does not know, because the answer to its claim was lost, it should release."""
    cancelled: tuple[str, ...]
    """Handles of the jobs for which a cancel was requested."""
    lost: tuple[str, ...]
    """The handles, of those that it named, of jobs it no longer owns: their runs should end at once."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome is stored."""

    job_id: str
    state: str
    """The job's new state: succeeded, failed, ready (it is retried), blocked, cancelled, expired."""
    again: bool
    """It was recorded before; nothing was changed."""
    delay: float | None
    """Seconds until the job may run again, if this call made it wait."""


class Waited(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a wait: it is over and the run continues, or the job is suspended and no longer the worker's."""

    job_id: str
    state: str
    """running: the answer is here. suspended: the job comes back by a later claim, and finds the answer then."""
    how: str
    """signals, operator or timeout, if the answer is here."""
    value: Any
    """The payload of the signal, a list if several were asked for, or the operator's value."""
    token: str | None
    """The waitpoint's token, while it is waited for."""
    expires_at: Instant | None
    again: bool
    """The job was suspended by this very call before; nothing was changed."""


@dataclass(frozen=True, slots=True)
class FrameDraft:
    """A frame for a job's stream: text, bytes, or a JSON value; at most 64 KiB."""

    data: Any
    kind: str = "output"
    best_effort: bool = False
    source: str | None = None
    correlation_id: str | None = None


# -- outcomes of runs, as their workers report them


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error of a run. Long texts are cut."""

    message: str
    type: str = "Error"
    traceback: str = ""


class Ending(msgspec.Struct, frozen=True, tag_field="outcome", forbid_unknown_fields=True):
    """One of those below. In JSON, `outcome` says which."""


class Done(Ending, frozen=True, tag="done"):
    """Success."""

    result: Any = None


class Retry(Ending, frozen=True, tag="retry"):
    """It failed: retried after `delay`, or by the job's own policy; failed permanently after its last attempt."""

    error: Problem
    delay: float | None = None


class TimedOut(Ending, frozen=True, tag="timeout"):
    """The run took longer than its timeout: retried, as after a failure."""

    error: Problem = Problem("the run took longer than its timeout", "Timeout")


class Fail(Ending, frozen=True, tag="fail"):
    """It failed permanently, whatever attempts are left."""

    error: Problem


class Snooze(Ending, frozen=True, tag="snooze"):
    """Run it again after `delay`. Uses no attempt."""

    delay: float


class Throttle(Ending, frozen=True, tag="throttle"):
    """An external limit refused the work. Uses no attempt; its queue pauses meanwhile, unless `cool_queue` is False."""

    retry_after: float = 60.0
    error: Problem = Problem("throttled", "Throttle")
    cool_queue: bool = True


class Park(Ending, frozen=True, tag="park"):
    """It cannot be done until a person acts, such as by renewing a credential. Uses no attempt."""

    error: Problem
    reason: str = "auth"


class Release(Ending, frozen=True, tag="release"):
    """Released unfinished: ready at once, without using an attempt."""


class Cancel(Ending, frozen=True, tag="cancel"):
    """It stopped because it was asked to."""


class Expire(Ending, frozen=True, tag="expire"):
    """The job's deadline passed while it ran."""


AnyEnding: TypeAlias = Done | Retry | TimedOut | Fail | Snooze | Throttle | Park | Release | Cancel | Expire
