"""Facts shown on a job's page: its timeline and the available actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...model.audit import AuditRecord
from ...model.jobs import Attempt, JobRecord, JobState
from ...rules.bulk import HELD
from ...shapes.jobs import error_line
from ..search.meaning import took

_ENDED: Final = {
    JobState.SUCCEEDED: "Succeeded",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Cancelled",
    JobState.EXPIRED: "Expired: its deadline passed",
    JobState.SKIPPED: "Skipped: its dependencies can no longer be met",
}
_OUTCOMES: Final = {
    "permanent": "failed (not retryable)",
    "exhausted": "failed (last attempt)",
    "timeout": "timed out",
    "lost": "was lost (worker died)",
    "throttled": "was throttled",
    "cancelled": "was cancelled",
    "released": "released (worker shut down)",
}
_DONE_BY: Final = {
    "job.retry": ("ready", "Retried"),
    "job.cancel": ("cancelled", "Cancelled"),
    "job.run_now": ("ready", "Started early"),
    "job.hold": ("blocked", "Held"),
    "job.release": ("ready", "Released"),
    "job.priority": ("ready", "Priority changed"),
    "job.move": ("ready", "Moved to another queue"),
    "job.revoke": ("ready", "Lease revoked"),
    "job.resume": ("running", "Resumed"),
    "job.answer": ("running", "Answered"),
    "job.replay": ("ready", "Replayed"),
    "job.fork": ("ready", "Forked"),
    "job.grant": ("ready", "Granted to one worker"),
    "job.withdraw": ("ready", "Grant withdrawn"),
}


@dataclass(frozen=True, slots=True)
class Acts:
    """The actions available on a job in its current state."""

    retry: bool = False
    run_now: bool = False
    hold: bool = False
    release: bool = False
    cancel: bool = False
    revoke: bool = False
    reorder: bool = False
    """Its priority and queue can be changed."""
    delete: bool = False
    resume: bool = False


def acts_of(job: JobRecord, now: int) -> Acts:
    """Return the actions that make sense now. The state may change before one is performed; the page then says so."""
    state = job.state
    if state.is_terminal:
        return Acts(retry=True, delete=True)
    if state is JobState.RUNNING:
        return Acts(cancel=True, revoke=True)
    if state is JobState.SUSPENDED:
        return Acts(cancel=True, resume=True)
    held = state is JobState.BLOCKED and job.reason == HELD
    return Acts(
        run_now=state is JobState.READY and job.not_before > now,
        hold=state is JobState.READY,
        release=held,
        cancel=True,
        reorder=True,
        delete=True,
    )


def timeline_of(
    job: JobRecord, attempts: Sequence[Attempt], audit: Sequence[AuditRecord], now: int
) -> list[dict[str, Any]]:
    """Return the past events, oldest first, and the expected ones."""
    items = [{"state": "ready", "what": "Enqueued", "at": job.created_at}]
    items += [_attempt(one) for one in attempts]
    items += [_record(one) for one in audit]
    if job.started_at is not None:
        items.append(_item("running", "First started", job.started_at))
    if job.cancel_at is not None:
        items.append(_item("cancelled", "Asked to stop", job.cancel_at, note=job.cancel_reason))
    if job.state is JobState.RUNNING and job.claimed_at not in (None, job.started_at):
        assert job.claimed_at is not None
        items.append(_item("running", f"Attempt {job.attempts} started", job.claimed_at, note=f"worker {job.owner}"))
    if job.finished_at is not None:
        note = None if job.state in (JobState.SUCCEEDED, JobState.FAILED) else job.reason
        items.append(_item(str(job.state), _ENDED[job.state], job.finished_at, length=_length(job, now), note=note))
    return sorted(items, key=_when) + _waits(job) + _to_come(job, now)


def _waits(job: JobRecord) -> list[dict[str, Any]]:
    """Return what the job is waiting for now, other than time."""
    if job.state is JobState.SUSPENDED:
        return [{"state": "suspended", "what": "Waiting for an answer" if job.reason == "signal" else "Waiting"}]
    if job.state is JobState.BLOCKED:
        return [{"state": "blocked", "what": "Held" if job.reason == HELD else "Waiting on limits or dependencies"}]
    return []


def _length(job: JobRecord, now: int) -> int | None:
    # The failed run comes before it, with its own entry.
    return took(job, now) if job.state is JobState.SUCCEEDED else None


def _to_come(job: JobRecord, now: int) -> list[dict[str, Any]]:
    if job.finished_at is not None:
        return []
    items = []
    if job.state is JobState.READY and job.not_before > now:
        what = "Next attempt" if job.reason == "retry" else "Due"
        items.append(_item("running", what, job.not_before, future=True))
    if job.deadline is not None:
        items.append(_item("expired", "Deadline", job.deadline, future=True))
    return items


def _attempt(one: Attempt) -> dict[str, Any]:
    length = None if one.started_at is None else max(0, one.ended_at - one.started_at)
    what = f"Attempt {one.attempt} {outcome_of(one)}"
    return _item(tone_of(one), what, one.ended_at, length=length, note=_short(error_line(one.error)))


def outcome_of(one: Attempt) -> str:
    """Describe the outcome of a run."""
    return _OUTCOMES.get(one.outcome, one.outcome.replace("_", " "))


def tone_of(one: Attempt) -> str:
    """Return the state whose colour an unsuccessful run is shown in."""
    return {"throttled": "blocked", "cancelled": "cancelled", "released": "ready"}.get(one.outcome, "failed")


def _record(one: AuditRecord) -> dict[str, Any]:
    state, what = _DONE_BY.get(one.action, ("ready", one.action))
    return _item(state, f"{what} by {one.actor}", one.at, note=one.reason or None)


def _item(state: str, what: str, at: int, **more: Any) -> dict[str, Any]:
    return {"state": state, "what": what, "at": at, **more}


def _when(item: dict[str, Any]) -> int:
    at: int = item["at"]
    return at


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= 300 else f"{text[:300]}…"
