"""The steps of a durable job on a common time axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...model.steps import Step
from ...model.values import in_brief, is_reference
from ...shapes.values import decoded

_BRIEF: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBar:
    """A step and its position between the first and the last; `left` and `width` are percentages."""

    step: Step
    label: str
    length: int
    left: float
    width: float
    value: Any
    brief: str
    """The beginning of the value."""
    error: Any


def bars_of(steps: Sequence[Step], *, payload: bool) -> list[StepBar]:
    """Return the steps with their positions. Without `payload` their values are withheld."""
    timed = [step for step in steps if step.started_at and step.ended_at]
    first = min((step.started_at for step in timed), default=0)
    span = max(max((step.ended_at for step in timed), default=0) - first, 1)
    return [_bar(step, first, span, payload=payload) for step in steps]


def _bar(step: Step, first: int, span: int, *, payload: bool) -> StepBar:
    length = max(0, step.ended_at - step.started_at)
    left = min(max(0.0, (step.started_at - first) * 100 / span), 99.5)
    return StepBar(
        step=step,
        label=step.key.partition(":")[2] or step.name,
        length=length,
        left=left,
        width=min(max(length * 100 / span, 0.5), 100 - left),
        value=decoded(step.value) if payload else None,
        brief=_brief(step.value or "") if payload else "",
        error=decoded(step.error) if payload else None,
    )


def _brief(value: str) -> str:
    return in_brief(value) if is_reference(value) else " ".join(value[:_BRIEF].split())
