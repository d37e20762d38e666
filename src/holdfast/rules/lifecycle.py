"""The table of legal moves. SQL statements repeat it as guards, tests check it, the documentation draws it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from ..model.jobs import TERMINAL, JobState
from ..model.outcomes import (  # fmt: skip
    Cancelled,
    Done,
    Expired,
    Failed,
    Outcome,
    Parked,
    Released,
    Rerouted,
    Retry,
    Snoozed,
    Suspended,
    Throttled,
)

MAX_GENERATION: Final = 10
CRASH_CAP: Final = 3
SUSPECT_AFTER: Final = 2
"""Losses of its worker after which a job runs in isolation. The first is most often caused by another job."""


class Event(StrEnum):
    """The events that move a job."""

    CLAIM = "claim"
    SUCCEED = "succeed"
    RETRY = "retry"
    FAIL = "fail"
    SNOOZE = "snooze"
    SUSPEND = "suspend"
    RESUME = "resume"
    """The wait is over, or timed out in a way that resumes the job."""
    THROTTLE = "throttle"
    PARK = "park"
    RELEASE = "release"
    REROUTE = "reroute"
    STOP = "stop"
    """The worker gives up on a job that it was asked to cancel."""
    RESCUE = "rescue"
    CANCEL = "cancel"
    FORCE_CANCEL = "force_cancel"
    EXPIRE = "expire"
    RUN_NOW = "run_now"
    RESCHEDULE = "reschedule"
    """An operator gives it a new time. Of blocked jobs, only for those that an operator holds."""
    OPERATOR_RETRY = "operator_retry"
    """An operator runs it again after its end."""
    HOLD = "hold"
    """An operator holds it."""
    OPERATOR_RELEASE = "operator_release"
    """The operator releases it. Only for jobs that an operator holds."""
    BLOCK = "block"
    """It gets a dependency before it has started."""
    UNBLOCK = "unblock"
    """All its dependencies have ended as required."""
    SKIP = "skip"
    """An upstream can no longer end as required."""
    GIVE_UP = "give_up"
    """The wait timed out."""
    SUPERSEDE = "supersede"
    """A newer job of its dedupe key replaces it. Only while it waits for its next attempt and its key allows that."""


_S = JobState
_WAITING: Final = (_S.READY, _S.BLOCKED, _S.SUSPENDED)

MOVES: Final[Mapping[tuple[JobState, Event], frozenset[JobState]]] = MappingProxyType(
    {
        (_S.READY, Event.CLAIM): frozenset({_S.RUNNING}),
        (_S.RUNNING, Event.SUCCEED): frozenset({_S.SUCCEEDED}),
        (_S.RUNNING, Event.RETRY): frozenset({_S.READY, _S.CANCELLED}),
        (_S.RUNNING, Event.FAIL): frozenset({_S.FAILED, _S.CANCELLED}),
        (_S.RUNNING, Event.SNOOZE): frozenset({_S.READY, _S.CANCELLED}),
        # Ready at once if the answer has already arrived.
        (_S.RUNNING, Event.SUSPEND): frozenset({_S.SUSPENDED, _S.READY, _S.CANCELLED}),
        (_S.SUSPENDED, Event.RESUME): frozenset({_S.READY}),
        (_S.SUSPENDED, Event.GIVE_UP): frozenset({_S.FAILED, _S.CANCELLED, _S.EXPIRED}),
        (_S.RUNNING, Event.THROTTLE): frozenset({_S.READY, _S.CANCELLED}),
        (_S.RUNNING, Event.PARK): frozenset({_S.BLOCKED, _S.CANCELLED}),
        (_S.RUNNING, Event.RELEASE): frozenset({_S.READY, _S.CANCELLED}),
        (_S.RUNNING, Event.REROUTE): frozenset({_S.READY, _S.CANCELLED}),
        (_S.RUNNING, Event.STOP): frozenset({_S.CANCELLED}),
        (_S.RUNNING, Event.RESCUE): frozenset({_S.READY, _S.FAILED, _S.CANCELLED, _S.EXPIRED}),
        # A request: the job keeps running until its worker answers.
        (_S.RUNNING, Event.CANCEL): frozenset({_S.RUNNING}),
        (_S.RUNNING, Event.FORCE_CANCEL): frozenset({_S.CANCELLED}),
        (_S.RUNNING, Event.EXPIRE): frozenset({_S.EXPIRED, _S.CANCELLED}),
        (_S.READY, Event.RUN_NOW): frozenset({_S.READY}),
        # Only for parked jobs: it does not overrule a dependency or a budget.
        (_S.BLOCKED, Event.RUN_NOW): frozenset({_S.READY}),
        (_S.READY, Event.RESCHEDULE): frozenset({_S.READY}),
        (_S.BLOCKED, Event.RESCHEDULE): frozenset({_S.BLOCKED}),
        (_S.READY, Event.HOLD): frozenset({_S.BLOCKED}),
        (_S.BLOCKED, Event.OPERATOR_RELEASE): frozenset({_S.READY}),
        (_S.READY, Event.SUPERSEDE): frozenset({_S.FAILED}),
        (_S.READY, Event.BLOCK): frozenset({_S.BLOCKED}),
        (_S.BLOCKED, Event.BLOCK): frozenset({_S.BLOCKED}),
        (_S.BLOCKED, Event.UNBLOCK): frozenset({_S.READY}),
        (_S.BLOCKED, Event.SKIP): frozenset({_S.SKIPPED}),
        **{(state, Event.CANCEL): frozenset({_S.CANCELLED}) for state in _WAITING},
        **{(state, Event.FORCE_CANCEL): frozenset({_S.CANCELLED}) for state in _WAITING},
        **{(state, Event.EXPIRE): frozenset({_S.EXPIRED, _S.FAILED}) for state in _WAITING},
        # A member of a flow waits for its upstreams again.
        **{(state, Event.OPERATOR_RETRY): frozenset({_S.READY, _S.BLOCKED}) for state in TERMINAL},
    }
)


def event_of(outcome: Outcome) -> Event:
    """Return the event for a worker's outcome."""
    return _EVENT_OF[type(outcome)]


_EVENT_OF: Final[Mapping[type, Event]] = {
    Done: Event.SUCCEED,
    Retry: Event.RETRY,
    Failed: Event.FAIL,
    Snoozed: Event.SNOOZE,
    Suspended: Event.SUSPEND,
    Throttled: Event.THROTTLE,
    Parked: Event.PARK,
    Released: Event.RELEASE,
    Rerouted: Event.REROUTE,
    Cancelled: Event.STOP,
    Expired: Event.EXPIRE,
}


def after_loss(
    *,
    attempts: int,
    max_attempts: int,
    crashes: int,
    losses: int,
    alone: bool,
    time_left: int | None,
    error: str,
    delay: int,
    is_too_old: bool = False,
) -> Outcome:
    """Decide what becomes of a job whose worker was lost; `losses` are those before this one.

    The second loss makes it a suspect. Only a loss while it ran alone counts towards the crash cap: with other jobs on
    the same worker the cause is unknown.
    """
    if time_left is not None and time_left <= 0:
        return Expired()
    convicted = alone and crashes + 1 >= CRASH_CAP
    exhausted = bool(max_attempts) and attempts >= max_attempts
    if convicted or exhausted:
        return Failed("worker_lost", error, convicts=alone)
    if is_too_old:
        return Failed("aged_out", error, convicts=alone)
    return Retry(delay, error, outcome="lost", convicts=alone, suspect=losses + 1 >= SUSPECT_AFTER)
