"""Actions that a job's state forbids, and unsuccessful ends of waits."""

from __future__ import annotations

from .root import Conflict, HoldfastError


class DuplicateJob(Conflict):
    """A job already holds the dedupe key, and on_duplicate is "raise"."""

    code = "duplicate"

    def __init__(self, job_id: str, key: str) -> None:
        self.job_id = job_id
        self.key = key
        super().__init__(f"job {job_id} already holds the dedupe key {key!r}")


class IdTaken(Conflict):
    """The id belongs to a job with another task, payload or tenant, or one that is not a member of the flow."""

    code = "id_taken"

    def __init__(self, job_id: str, message: str = "") -> None:
        self.job_id = job_id
        super().__init__(message or f"job {job_id} exists with another task, payload or tenant; choose another id")


class LeaseLost(Conflict):
    """The caller no longer owns the job. Nothing was changed; do not retry."""

    code = "lease_lost"


class IllegalMove(Conflict):
    """The job's state does not allow this move."""

    code = "illegal_move"


class QueueClosed(Conflict):
    """The queue takes no new jobs: it is draining or disabled."""

    code = "queue_closed"

    def __init__(self, queue: str, state: str) -> None:
        self.queue = queue
        self.state = state
        super().__init__(f"queue {queue!r} is {state} and takes no new jobs; resume it, or use another queue")


class ResultTimeout(HoldfastError, TimeoutError):
    """The job had not finished when the wait ended. It is still pending and was not cancelled."""

    code = "timeout"


class StepDiverged(Conflict):
    """A durable call differs from the one that an earlier run recorded. The job fails; its journal stays."""

    code = "diverged"

    def __init__(self, key: str, why: str) -> None:
        self.key = key
        super().__init__(
            f"{key} {why}; give a changed step a new name, or deploy the code that began this job and retry it"
        )


class StepFailed(HoldfastError):
    """A step failed and has no attempts left. Also raised when the failure is read from the journal."""

    code = "step_failed"

    def __init__(self, step: str, type: str, message: str) -> None:
        self.step = step
        self.type = type
        self.message = message
        super().__init__(f"step {step!r} failed: {type}: {message}")


class JobNotSucceeded(HoldfastError):
    """The job ended without a result."""

    code = "not_succeeded"

    def __init__(self, job_id: str, state: str, error: str | None = None) -> None:
        self.job_id = job_id
        self.state = state
        self.error = error
        super().__init__(f"job {job_id} {state}" + (f": {error}" if error else ""))


class JobFailed(JobNotSucceeded):
    """The job failed for good."""

    code = "job_failed"


class JobCancelled(JobNotSucceeded):
    """The job was cancelled."""

    code = "job_cancelled"


class JobExpired(JobNotSucceeded):
    """The job's deadline passed."""

    code = "job_expired"


class JobSkipped(JobNotSucceeded):
    """A dependency made the job impossible."""

    code = "job_skipped"
