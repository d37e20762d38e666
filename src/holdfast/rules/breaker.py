"""Decides what the end of a run means for the circuit breaker of its destination.

Only what says that the destination did not answer counts: errors that may go away, and timeouts. A failure that no
retry can mend, a refusal by a rate, a cancel and a lost worker say nothing about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from ..model.limits import Breaker
from ..model.outcome import Done, Failed, Outcome, Retry

_FAILURES: Final = frozenset({"failed", "timeout", "exhausted", "aged_out"})


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that ended. `answered` says whether the destination did; None if it cannot be told."""

    job: str
    epoch: int
    answered: bool | None


def answered(outcome: Outcome, state: str) -> bool | None:
    """Return whether the destination answered, as far as the outcome can tell. `state` is the job's new state."""
    match outcome:
        case Done():
            return True
        case Retry(outcome=kind) | Failed(kind=kind) if kind in _FAILURES and state != "cancelled":
            return False
        case _:
            return None


def after(breaker: Breaker, runs: Iterable[Ended]) -> Breaker:
    """The breaker when these runs have ended, in that order."""
    for run in runs:
        if breaker.open_until is None:
            breaker = _closed(breaker, run)
        elif breaker.trial == (run.job, run.epoch):
            breaker = _tried(breaker, run)
        # Others began before it opened, and say nothing new.
    return breaker


def opened(breaker: Breaker, open_for: int | None = None) -> Breaker:
    """Open a breaker, so that it lets nothing through for a while, by default for its usual time."""
    until = breaker.now + (breaker.open_for if open_for is None else open_for)
    openings = breaker.openings + 1
    return replace(breaker, opened_at=breaker.now, open_until=until, trial=None, trial_runs=False, openings=openings)


def closed(breaker: Breaker) -> Breaker:
    """Close a breaker, so that it lets everything through, and forget its failures."""
    return replace(breaker, failures=0, opened_at=None, open_until=None, trial=None, trial_runs=False)


def _closed(breaker: Breaker, run: Ended) -> Breaker:
    if run.answered is None:
        return breaker
    if run.answered:
        return replace(breaker, failures=0)
    counted = replace(breaker, failures=breaker.failures + 1)
    return opened(counted) if counted.failures >= counted.threshold else counted


def _tried(breaker: Breaker, run: Ended) -> Breaker:
    if run.answered is None:
        # It proved nothing: the next job tries.
        return replace(breaker, trial=None, trial_runs=False)
    return closed(breaker) if run.answered else opened(breaker)
