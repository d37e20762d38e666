"""The journal of a durable job."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ..model.steps import Step as StepRecord
from ..model.values import Withheld, decoded, instant_of


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded step of a job, which is not run again."""

    key: str
    kind: str
    name: str
    called: str | None
    attempts: int
    started_at: datetime | None
    ended_at: datetime | None
    value: Withheld
    error: Withheld


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A new job that goes on from a step of another."""

    id: str
    forked_from: str
    from_step: str


def of_step(step: StepRecord, *, payload: bool = True) -> Step:
    """A step. Without `payload` what it gave is withheld."""
    return Step(
        key=step.key,
        kind=step.kind,
        name=step.name,
        called=step.called or None,
        attempts=step.attempts,
        started_at=instant_of(step.started_at),
        ended_at=instant_of(step.ended_at),
        value=decoded(step.value) if payload else None,
        error=decoded(step.error) if payload else None,
    )
