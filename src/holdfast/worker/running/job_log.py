"""One log line for each run that ends: its outcome, how long it took, and how long it had waited."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from textwrap import indent
from typing import Final

import msgspec

from ...clock import SECOND, Clock
from ...errors import StorageError
from ...model.outcomes import (
    Cancelled,
    Done,
    Expired,
    Failed,
    Outcome,
    Parked,
    Released,
    Rerouted,
    Retry,
    Snoozed,
    Suspended,
    Throttled,
)
from ...rules.redaction import hiding
from ...telemetry import fields_of
from ...values.printable import printable
from .runs import Run

logger: Final = logging.getLogger("holdfast.jobs")

_LONGEST: Final = 200


def report(run: Run, outcome: Outcome, seconds: float, clock: Clock) -> None:
    """Log one run that took `seconds`."""
    level = _level(run, outcome)
    if not logger.isEnabledFor(level):
        return
    job = run.job
    waited = max(0.0, (clock.now() - job.rank) / SECOND - seconds)
    error = run.error if isinstance(run.error, BaseException) else None
    # The traceback may contain secrets from the arguments; the stored error was redacted already.
    with nullcontext() if error is None else hiding(job.payload):
        logger.log(
            level,
            "job %s (%s) %s in %.3f s, waited %.3f s%s",
            job.id, job.task, _WHAT[type(outcome)], seconds, waited, _rest(run, outcome),
            exc_info=error if _is_worth_a_traceback(error) else None,
            extra=fields_of(job),
        )  # fmt: skip


_WHAT: Final[dict[type, str]] = {
    Done: "succeeded", Retry: "failed", Failed: "failed for good", Snoozed: "snoozed", Suspended: "suspended",
    Throttled: "throttled", Parked: "parked", Released: "handed back", Rerouted: "rerouted", Cancelled: "cancelled",
    Expired: "expired",
}  # fmt: skip


def _level(run: Run, outcome: Outcome) -> int:
    """Return the level: warning for failed jobs and for retries after unexpected errors."""
    if isinstance(outcome, Failed):
        return logging.WARNING
    if run.error is None or isinstance(run.error, StorageError) or not isinstance(outcome, Retry):
        return logging.INFO
    return logging.WARNING


def _is_worth_a_traceback(error: BaseException | None) -> bool:
    """Return False for an outage of the store, whose traceback says nothing about the job."""
    return error is not None and (not isinstance(error, StorageError) or logger.isEnabledFor(logging.DEBUG))


def _rest(run: Run, outcome: Outcome) -> str:
    match outcome:
        case Retry(delay=delay, error=error):
            return f": {_brief(error)}; retrying in {delay / SECOND:.3g} s ({_count(run)}){_frames(run)}"
        case Failed(kind=kind, error=error):
            return f": {_brief(error)} ({kind}, {_count(run)}){_frames(run)}"
        case Throttled(delay=delay, error=error):
            return f": {_brief(error)}; again in {delay / SECOND:.3g} s"
        case Snoozed(delay=delay, reason=reason):
            return f"; again in {delay / SECOND:.3g} s ({reason})"
        case Parked(reason=reason, error=error):
            return f": {_brief(error)} ({reason})"
        case Released(reason=reason) | Cancelled(reason=reason) | Rerouted(reason=reason):
            return f" ({reason})"
        case _:
            return ""


def _brief(error: str) -> str:
    """Return the type and the beginning of the message of a stored error."""
    try:
        known = msgspec.json.decode(error, type=dict[str, str])
    except msgspec.DecodeError:
        return printable(error[:_LONGEST])
    # On one line: what a caller can put into an error must not look like another line of the log.
    return printable(f"{known.get('type', '')}: {known.get('message', '')}"[:_LONGEST])


def _count(run: Run) -> str:
    """Return the attempt, such as `1 of 5`; without the second number if there is no limit."""
    most = run.job.max_attempts
    return f"{run.job.attempt} of {most}" if most > 0 else f"attempt {run.job.attempt}"


def _frames(run: Run) -> str:
    """Return the traceback from the child process."""
    return indent(f"\n{run.error}", "  ") if run.error and isinstance(run.error, str) else ""
