"""Explanations of jobs' states, and counts of jobs."""

from __future__ import annotations

import msgspec

from ..model.answers import Count as CountRecord
from ..model.job import JobState
from ..rules.explain import Explanation as ExplanationRecord
from ..rules.reach import Reason as ReasonRecord


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """A reason for a job's state, and what would move the job. `code` does not change between versions."""

    code: str
    text: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The reasons for a job's state; the first is the decisive one."""

    id: str
    state: JobState
    reasons: list[Reason]


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a queue in a state; "delayed" are ready jobs whose time has not come."""

    queue: str
    state: str
    jobs: int
    estimated: bool


def of_reason(reason: ReasonRecord) -> Reason:
    return Reason(code=reason.code, text=reason.text)


def of_explanation(found: ExplanationRecord) -> Explanation:
    reasons = [of_reason(reason) for reason in found.reasons]
    return Explanation(id=found.job.id, state=found.job.state, reasons=reasons)


def of_count(count: CountRecord) -> Count:
    return Count(queue=count.queue, state=count.label, jobs=count.jobs, estimated=count.estimated)
