"""Results of actions."""

from __future__ import annotations

import msgspec

from ..model.actions import Action, ActionResult
from ..model.actions import BulkReport as Report
from .jobs import Job


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an action; `changed` is false where nothing had to change."""

    changed: bool


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One job's own outcome."""

    id: str
    outcome: ActionResult


class BulkReport(msgspec.Struct, frozen=True, kw_only=True):
    """The number of jobs by result; with `dry_run`, nothing was changed. `results` are of jobs that were named."""

    action: Action
    dry_run: bool
    chosen: int
    changed: int
    counts: dict[ActionResult, int]
    results: list[Result]


class Acted(Changed, frozen=True, kw_only=True):
    """The result of an action on one job: `outcome` in a word, and the job as it is now; null where it is gone."""

    outcome: str
    job: Job | None


def of_report(report: Report) -> BulkReport:
    return BulkReport(
        action=report.action,
        dry_run=report.dry_run,
        chosen=report.chosen,
        changed=report.changed,
        counts=dict(report.counts),
        results=[Result(id=job_id, outcome=outcome) for job_id, outcome in report.by_id.items()],
    )
