"""The journal of a job: its completed steps, which are not run again."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import msgspec

from .values import Instant, Withheld

TRACE: Final = "trace"
"""The kind of an entry that says which run was suspended, for the trace of the next; no call of the handler."""


class StepAttributes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a step says about its call, with `ctx.describe`: of a language model, or of a tool."""

    model: str | None = None
    tool: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Decimal | None = None
    """In a unit of yours."""

    @property
    def summary(self) -> str:
        """One line for people: `gpt-5 · tokens: 310 in, 12 out · cost 0.002`."""
        tokens = [(self.input_tokens, "in"), (self.output_tokens, "out")]
        known = [f"{n:,} {way}" for n, way in tokens if n is not None]
        used = f"tokens: {', '.join(known)}" if known else None
        cost = None if self.cost is None else f"cost {self.cost:f}"
        return " · ".join(part for part in (self.model, self.tool, used, cost) if part)


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
    attributes: StepAttributes | None = None


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
    attributes: str | None = None
    """Encoded `StepAttributes`."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The entries of a job as a run finds them, in the order of the calls."""

    steps: tuple[Step, ...] = ()
    read_at: int = 0
    """By the store's clock."""
    stale: frozenset[str] = frozenset()
    """Keys of failures with which a run has failed since: they are ignored and replaced."""
