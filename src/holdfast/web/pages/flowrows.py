"""Flows in the list: the state and the progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...model.flows import FlowRecord
from ...model.jobs import JobState
from .addresses import below

COUNTED: Final = 20_000
"""The maximum number of jobs counted by state on a page; beyond it, only finished jobs are shown."""
ORDER: Final = (
    JobState.SUCCEEDED, JobState.RUNNING, JobState.READY, JobState.SUSPENDED, JobState.BLOCKED, JobState.FAILED,
    JobState.EXPIRED, JobState.CANCELLED, JobState.SKIPPED,
)  # fmt: skip
"""The order in which states are drawn: done, in progress, pending, failed."""


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A flow in the list."""

    flow: FlowRecord
    path: str
    mix: list[tuple[str, int]]
    """Jobs by state; empty where there are too many to count."""
    ended: int
    took: int | None
    runs_since: int | None


def row_of(flow: FlowRecord, counts: Mapping[str, int]) -> FlowRow:
    """Return one flow with its jobs by state."""
    lives = flow.finished_at is None
    return FlowRow(
        flow,
        below("flows", flow.id),
        mix_of(counts),
        flow.members - flow.live,
        None if flow.finished_at is None else max(0, flow.finished_at - flow.created_at),
        flow.created_at if lives else None,
    )


def mix_of(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the states that occur, in drawing order."""
    return [(str(state), counts[state]) for state in ORDER if counts.get(state)]


def countable(flows: Sequence[FlowRecord]) -> list[str]:
    """Return the flows whose jobs are counted: the first ones, up to a limit."""
    found: list[str] = []
    left = COUNTED
    for flow in flows:
        if flow.members <= left:
            found.append(flow.id)
            left -= flow.members
    return found
