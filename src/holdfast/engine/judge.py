"""Makes an outcome of what happened to a run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ..apart import decode_decided
from ..clock import Clock
from ..errors import HoldfastError
from ..model.outcome import Cancelled, Done, Expired, Failed, Outcome, Released, Snoozed
from ..outcomes import JobSignal
from ..rules import retry
from ..rules.failure import Failure, FailureClass, classify, decide, error_json, error_text
from .children import ChildDied
from .inputs import UnfitInputs
from .runs import Run

logger: Final = logging.getLogger("holdfast.engine")


class UndecodableJob(Exception):
    """The stored arguments do not fit the task any more, or were never right; see __cause__."""


class Answered(Exception):
    """A child process said that its run did not succeed. Passes through the middleware like any exception."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        super().__init__(f"the run in a child process ended as {answer['kind']}")


class Judge:
    """Knows the clock and the dice that the rules need."""

    def __init__(self, clock: Clock, random: Callable[[], float]) -> None:
        self._clock = clock
        self._random = random

    def returned(self, run: Run, value: Any) -> Outcome | None:
        """The handler came to its end: a late cancel does not undo that."""
        if run.stop.outcome is not None:
            return self._paused(run)
        try:
            return Done(run.task.signature.encode_result(value))
        except HoldfastError as error:
            return Failed("bad_result", error_text(error))

    def raised(self, run: Run, error: BaseException) -> Outcome | None:
        """An exception left the handler, of whatever kind."""
        if run.stop.outcome is not None:
            return self._paused(run)
        if isinstance(error, Answered):
            return self.answered(run, error.answer)
        if isinstance(error, ChildDied):
            return self.died(run, error)
        if isinstance(error, UnfitInputs):
            return Failed(error.kind, error_text(error))
        if isinstance(error, UndecodableJob):
            return Failed("undecodable", error_text(error.__cause__ or error))
        if run.stop.reason is not None:
            return self.stopped(run)
        if not isinstance(error, JobSignal):
            logger.warning("job %s (%s) failed", run.job.id, run.job.task, exc_info=error, extra=_bound(run))
        return self._decided(run, classify(error, run.task.task_options.permanent_on))

    def stopped(self, run: Run) -> Outcome | None:
        """The run ended because it was told to. None: the job is somebody else's, there is nothing to say."""
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
        """The run's own process ended under it."""
        if death.killed and run.stop.reason is not None:
            return self.stopped(run)
        if not death.begun:
            return self._decided(run, Failure(FailureClass.TRANSIENT, error_text(death)))
        logger.error("job %s (%s) took its process down: %s", run.job.id, run.job.task, death, extra=_bound(run))
        return self._decided(run, Failure(FailureClass.CRASH, error_json("WorkerLost", str(death))))

    def answered(self, run: Run, answer: dict[str, Any]) -> Outcome | None:
        """What a child process said about its run."""
        match answer["kind"]:
            case "done":
                return Done(answer["result"])
            case "snoozed":
                return Snoozed(answer["delay"])
            case "decided":
                run.stop.outcome = decode_decided(answer)
                return self._paused(run)
            case "cancelled":
                return self.stopped(run)
            case "undecodable" | "bad_result" as kind:
                return Failed(kind, answer["error"])
            case _ if run.stop.reason is not None:
                return self.stopped(run)
            case "failed":
                failure = Failure(FailureClass.TRANSIENT, error_json(**_described(answer["error"])))
            case kind:
                cools = answer.get("cools", True)
                failure = Failure(FailureClass(kind), answer["error"], answer["after"], answer["reason"], cools)
        if not answer.get("on_purpose"):
            where = msgspec.json.decode(failure.error).get("traceback", "")
            logger.warning("job %s (%s) failed in its process\n%s", run.job.id, run.job.task, where, extra=_bound(run))
        return self._decided(run, failure)

    def value_of(self, run: Run, answer: dict[str, Any]) -> Any:
        """The result that a child process answered, for the middleware around it."""
        if answer["kind"] != "done":
            raise Answered(answer)
        return run.task.signature.decode_result(answer["result"])

    def _paused(self, run: Run) -> Outcome | None:
        """It was suspended, or went astray, before its handler ended: what that did since does not count."""
        return None if run.stop.reason == "lost" else run.stop.outcome

    def _decided(self, run: Run, failure: Failure | Snoozed) -> Outcome:
        if isinstance(failure, Snoozed):
            return failure
        policy = retry.decode(run.job.retry) if run.job.retry else run.task.task_options.retry or retry.DEFAULT
        return decide(failure, run.job, policy, now=self._clock.now(), u=self._random())


def _bound(run: Run) -> dict[str, object]:
    """For the log: the loop that judges is nobody's job, so the record is told whose it is."""
    return {"job": run.job.id, "task": run.job.task, "attempt": run.job.attempt}


def _described(error: dict[str, str]) -> dict[str, str]:
    return {"type_name": error["type"], "message": error["message"], "frames": error["traceback"]}
