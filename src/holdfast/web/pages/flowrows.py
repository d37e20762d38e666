"""How flows stand in their list: the state, and how far their members are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...model.flow import FlowRecord
from ...model.job import JobState
from .addresses import below

COUNTED: Final = 20_000
"""Members of a page of flows that are counted by their states. Of what is beyond, only who has ended is shown."""
ORDER: Final = (
    JobState.SUCCEEDED, JobState.RUNNING, JobState.READY, JobState.SUSPENDED, JobState.BLOCKED, JobState.FAILED,
    JobState.EXPIRED, JobState.CANCELLED, JobState.SKIPPED,
)  # fmt: skip
"""As they are drawn side by side: done, under way, to come, and what went wrong."""


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A flow in the list."""

    flow: FlowRecord
    path: str
    mix: list[tuple[str, int]]
    """Members by state; nothing where there are too many to count."""
    ended: int
    took: int | None
    runs_since: int | None


def row_of(flow: FlowRecord, counts: Mapping[str, int]) -> FlowRow:
    """One flow with its members by state."""
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
    """States that somebody is in, in the order of drawing."""
    return [(str(state), counts[state]) for state in ORDER if counts.get(state)]


def countable(flows: Sequence[FlowRecord]) -> list[str]:
    """The flows whose members are counted: the first of them, as long as it does not become too much."""
    found: list[str] = []
    left = COUNTED
    for flow in flows:
        if flow.members <= left:
            found.append(flow.id)
            left -= flow.members
    return found
