"""The journal of a job: its completed steps, which are not run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from .values import Instant, Withheld

TRACE: Final = "trace"
"""The kind of an entry that says which run was suspended, for the trace of the next; no call of the handler."""


class StepInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded step of a job, which is not run again."""

    key: str
    """Kind, name and ordinal: `step:load#1`."""
    kind: str
    """step, wait, sleep, waitpoint, enqueue, spend, artifact, progress."""
    name: str
    called: str | None
    """The function that was called."""
    attempts: int
    started_at: Instant
    ended_at: Instant
    value: Withheld
    error: Withheld
    """Instead of a value, if the step failed and the job continued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One entry as it is stored, written once. Instants are microseconds."""

    key: str
    """Kind, name and ordinal: `step:load#1`."""
    kind: str
    """step, wait, sleep, waitpoint, enqueue, spend, artifact, progress."""
    name: str
    called: str = ""
    """The function that was called; another under the same key is a divergence."""
    value: str | None = None
    """Encoded."""
    attempts: int = 1
    started_at: int = 0
    ended_at: int = 0
    epoch: int = 0
    position: int = 0
    error: str | None = None
    """Encoded; instead of a value, if the step failed and the job continued."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The entries of a job as a run finds them, in the order of the calls."""

    steps: tuple[Step, ...] = ()
    read_at: int = 0
    """By the store's clock."""
    stale: frozenset[str] = frozenset()
    """Keys of failures with which a run has failed since: they are ignored and replaced."""
