"""What a suspended job waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OnTimeout = Literal["fail", "cancel", "expire", "resume", "escalate"]
"""`escalate`: it stays suspended for an operator to look at."""
Distinct = Literal["waitpoints", "signals", "sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Which signals end the wait. Without names and waitpoints none does: only an operator, or the timeout."""

    names: tuple[str, ...] = ()
    """Signals sent to the job by name."""
    waitpoints: tuple[str, ...] = ()
    """Ids of waitpoints."""
    needed: int = 1
    """How many; 0 is one from each name and waitpoint."""
    distinct: Distinct = "signals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A wait, as the worker hands it to the store with the job."""

    key: str
    """The step that the answer becomes."""
    reason: str
    """signal, jobs, operator."""
    condition: Condition = Condition()
    jobs: tuple[str, ...] = ()
    """Jobs that must have ended, however they ended, for it to go on."""
    timeout: int | None = None
    """Microseconds from the suspension."""
    on_timeout: OnTimeout = "fail"
