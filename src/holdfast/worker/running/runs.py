"""The jobs that this worker runs now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ...model.jobs import Claimed
from ...model.outcomes import (  # fmt: skip
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
from ...tasks.context import Stop
from ...tasks.task import Task
from ...telemetry import RunTally
from .deadlines import Deadline

_ENDS: Final[Mapping[type, str]] = {
    Done: "succeeded", Retry: "retried", Failed: "failed", Snoozed: "snoozed", Suspended: "suspended",
    Throttled: "throttled", Parked: "parked", Released: "released", Rerouted: "rerouted", Cancelled: "cancelled",
    Expired: "expired",
}  # fmt: skip


class Run:
    """One job in one handler. `stop` says why it should end; `interrupt` ends it, as far as possible."""

    __slots__ = (
        "abandon",
        "batch",
        "claim",
        "deadline",
        "error",
        "interrupt",
        "job",
        "owner",
        "stop",
        "taken_at",
        "task",
    )

    def __init__(self, job: Claimed, task: Task[Any, Any], claim: str, taken_at: float, owner: str = "") -> None:
        self.job = job
        self.task = task
        self.claim = claim
        self.taken_at = taken_at
        self.owner = owner
        self.stop = Stop()
        self.batch: Any = None
        """The batch that it is in, if its task takes batches."""
        self.deadline: Deadline | None = None
        """Deadline at which it is asked to end, or given up."""
        self.error: BaseException | str | None = None
        """Exception raised by the handler, unless intended as an outcome; text from a child process."""
        self.interrupt: Callable[[], object] = _nothing
        """Ask the handler to end: cancel its coroutine, send a cancel to its child."""
        self.abandon: Callable[[], object] = _nothing
        """Give it up: kill its process, replace its thread."""


class Runs:
    """Running jobs by id and epoch: a job may return under a new epoch while its old handler is still ending."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, int], Run] = {}
        self.suspects = 0

    def add(self, run: Run) -> None:
        self._running[run.job.id, run.job.epoch] = run
        self.suspects += run.job.suspect

    def remove(self, run: Run) -> bool:
        """Forget a run; False if it was forgotten before: its report comes too late."""
        if self._running.pop((run.job.id, run.job.epoch), None) is None:
            return False
        self.suspects -= run.job.suspect
        # They refer back to the run. Ten objects of each job were left to the garbage collector: a seventh of all time.
        run.interrupt = run.abandon = _nothing
        return True

    def get(self, job_id: str, epoch: int) -> Run | None:
        return self._running.get((job_id, epoch))

    def __contains__(self, run: Run) -> bool:
        return (run.job.id, run.job.epoch) in self._running

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._running.values()))

    def __len__(self) -> int:
        return len(self._running)


def count_runs(tally: RunTally, job: Claimed, kind: type[Outcome], seconds: float, n: int = 1) -> None:
    """Count runs of the job's task that ended with that kind of outcome."""
    tally.count(job.queue, job.task, _ENDS[kind], seconds, n)


def _nothing() -> None:
    """Do nothing, for a run that has no handler yet."""
