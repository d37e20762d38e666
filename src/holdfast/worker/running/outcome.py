"""Derives the outcome of a run from how it ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from ...clock import Clock
from ...errors import HoldfastError, NotAwaited
from ...model.outcomes import Cancelled, Done, Expired, Failed, Outcome, Released, Retry, Snoozed
from ...outcomes import JobOutcome
from ...rules.failure import Failure, FailureClass, classify, decide, error_json, error_text
from ...rules.redaction import hiding
from ...rules.retry import policy_for
from ...tasks.child_entry import decode_decided
from ...telemetry import fields_of
from ..processes.pool import ChildDied
from .inputs import UnfitInputs
from .runs import Run

logger: Final = logging.getLogger("holdfast.worker")


class UndecodableJob(Exception):
    """The stored arguments do not match the task; see __cause__."""


class OutcomeRules:
    """Applies the rules with a clock and a random source."""

    def __init__(self, clock: Clock, random: Callable[[], float]) -> None:
        self._clock = clock
        self._random = random

    def returned(self, run: Run, value: Any) -> Outcome | None:
        """Return the outcome of a handler that returned; a late cancel does not change it."""
        if run.stop.outcome is not None:
            return self._paused(run)
        try:
            if run.stop.calls is not None:
                run.stop.require_awaited()
            return Done(run.task.signature.encode_result(value))
        except NotAwaited as error:
            return self.raised(run, error)
        except HoldfastError as error:
            return Failed("bad_result", error_text(error))

    def raised(self, run: Run, error: BaseException) -> Outcome | None:
        """Return the outcome of a handler that raised, of any kind of exception."""
        if run.stop.outcome is not None:
            return self._paused(run)
        if isinstance(error, ChildDied):
            return self.died(run, error)
        if isinstance(error, UnfitInputs):
            return Failed(error.kind, error_text(error))
        if isinstance(error, UndecodableJob):
            return self._undecodable(run, error_text(error.__cause__ or error), getattr(error.__cause__, "unknown", ()))
        if run.stop.reason is not None:
            return self.stopped(run)
        with hiding(run.job.payload):
            failure = classify(error, run.task.task_options.no_retry_on)
            if not isinstance(error, JobOutcome):
                run.error = error
                _log_captured(run, error)
        return self._decided(run, failure)

    def stopped(self, run: Run) -> Outcome | None:
        """Return the outcome of a run that was stopped. None: the job belongs to another worker, nothing to record."""
        if run.stop.outcome is not None:
            return self._paused(run)
        match run.stop.reason:
            case "timeout":
                text = error_json("Timeout", f"the run took longer than {(run.job.timeout or 0) / 1e6:g} s")
                return self._decided(run, Failure(FailureClass.TIMEOUT, text))
            case "deadline":
                return Expired()
            case "cancel":
                return Cancelled("cancelled")
            case "shutdown" | "fenced" as reason:
                return Released(reason)
            case "lost":
                return None
            case _:
                text = error_json("CancelledError", "the handler was cancelled by its own code")
                return self._decided(run, Failure(FailureClass.TRANSIENT, text))

    def died(self, run: Run, death: ChildDied) -> Outcome | None:
        """Return the outcome of a run whose own process died."""
        if death.killed and run.stop.reason is not None:
            return self.stopped(run)
        if not death.begun:
            return self._decided(run, Failure(FailureClass.TRANSIENT, error_text(death)))
        run.error = death
        text = error_json("WorkerLost", str(death))
        if death.shared:
            # Each job of the batch runs in isolation next, whatever attempts are left: only one of them is to blame.
            return Retry(0, text, outcome="crashed", suspect=True)
        return self._decided(run, Failure(FailureClass.CRASH, text))

    def answered(self, run: Run, answer: dict[str, Any]) -> Outcome | None:  # noqa: C901 (one line per answer)
        """Return the outcome that a child process reported."""
        match answer["kind"]:
            case "done":
                return Done(answer["result"])
            case "snoozed":
                return Snoozed(answer["delay"])
            case "gave_up":
                return Cancelled(answer["reason"])
            case "decided":
                run.stop.outcome = decode_decided(answer)
                return self._paused(run)
            case "cancelled":
                return self.stopped(run)
            case "undecodable":
                return self._undecodable(run, answer["error"], answer["unknown"])
            case "bad_result" as kind:
                return Failed(kind, answer["error"])
            case _ if run.stop.reason is not None:
                return self.stopped(run)
            case "failed":
                failure = Failure(FailureClass.TRANSIENT, error_json(**_described(answer["error"])))
            case kind:
                cools = answer.get("cools", True)
                failure = Failure(FailureClass(kind), answer["error"], answer["after"], answer["reason"], cools)
        failure = _hidden(run, failure)
        if not answer.get("on_purpose"):
            run.error = msgspec.json.decode(failure.error).get("traceback", "")
        return self._decided(run, failure)

    def _undecodable(self, run: Run, error: str, unknown: Sequence[str]) -> Outcome:
        """Retry a job with arguments unknown to this code, for workers with newer code, while it has attempts."""
        outcome = self._decided(run, Failure(FailureClass.TRANSIENT, error)) if unknown else None
        if not isinstance(outcome, Retry):
            return Failed("undecodable", error)
        run.error = ""
        return outcome

    def _paused(self, run: Run) -> Outcome | None:
        """Return the outcome set while the handler ran (suspended or failed): what it did since does not count."""
        return None if run.stop.reason == "lost" else run.stop.outcome

    def _decided(self, run: Run, failure: Failure | Snoozed | Cancelled) -> Outcome:
        if isinstance(failure, Snoozed | Cancelled):
            return failure
        policy = policy_for(run.job.retry, run.task.task_options.retry)
        return decide(failure, run.job, policy, now=self._clock.now(), u=self._random())


def _log_captured(run: Run, error: BaseException) -> None:
    """Log the error while the run's logs still go into its stream; the worker's own line comes after it ends."""
    if "logs" in run.task.task_options.capture:
        logger.warning("job %s (%s) failed", run.job.id, run.job.task, exc_info=error, extra=fields_of(run.job))


def _hidden(run: Run, failure: Failure) -> Failure:
    """Return the failure without the secrets of the run's arguments, which its process does not redact."""
    error = msgspec.json.decode(failure.error)
    with hiding(run.job.payload):
        return replace(failure, error=error_json(error["type"], error["message"], error.get("traceback")))


def _described(error: dict[str, str]) -> dict[str, str]:
    return {"type_name": error["type"], "message": error["message"], "frames": error["traceback"]}
