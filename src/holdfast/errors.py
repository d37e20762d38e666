"""Every error Holdfast raises, in one tree.

    HoldfastError                   .code, a stable name for programs
    ├── ConfigError                 wrong before anything ran
    ├── InvalidInput                a value was refused; nothing was written
    │   ├── InvalidArguments        arguments that do not fit the task's signature or cannot be encoded
    │   ├── Undecodable             stored text that is not JSON, or not of the type that is expected
    │   ├── UnknownTask             no task of that name is registered or declared
    │   └── PayloadTooLarge         .size .limit
    ├── NotFound                    .kind .id
    ├── Conflict                    the store holds something that forbids this
    │   ├── DuplicateJob            .job_id, raised only where on_duplicate="raise"
    │   ├── IdTaken                 the same id with another task or payload
    │   ├── LeaseLost               the caller no longer owns the job; nothing was changed
    │   ├── IllegalMove             the job's state does not allow this
    │   └── QueueClosed             .queue .state, the queue takes no new jobs
    ├── QueueFull                   too many writes are waiting in this process
    ├── StorageError                .backend
    │   ├── StorageBusy             the lock could not be had before the deadline
    │   ├── StorageUnavailable      the database cannot be reached
    │   ├── StorageFull             no space left; reads still work
    │   ├── StorageReadOnly         the file or server refuses writes
    │   ├── OutcomeUnknown          the connection broke at COMMIT
    │   ├── Corruption              a stored value that no version of Holdfast writes
    │   ├── SchemaMismatch          run "holdfast db migrate"
    │   └── NotInTransaction        the lent connection has no open transaction
    ├── ResultTimeout               also a TimeoutError
    └── JobNotSucceeded             what .result() raises: .job_id .state .error
        ├── JobFailed
        ├── JobCancelled
        ├── JobExpired
        └── JobSkipped

Expected outcomes are values; these are surprises. Each message ends with what to do next.
"""

from __future__ import annotations

from typing import ClassVar


class HoldfastError(Exception):
    """The root of all errors raised by Holdfast."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False


class ConfigError(HoldfastError):
    """A setting is wrong; nothing has run."""

    code = "config"


class InvalidInput(HoldfastError):
    """A value was refused before anything was written."""

    code = "invalid"


class InvalidArguments(InvalidInput):
    """The arguments do not fit the task's signature, or cannot be encoded."""

    code = "invalid_arguments"


class Undecodable(InvalidInput):
    """Stored text that is not JSON, or that does not fit the type it is read as."""

    code = "undecodable"


class UnknownTask(InvalidInput):
    """No task of that name is registered or declared in this app."""

    code = "unknown_task"


class PayloadTooLarge(InvalidInput):
    """An encoded value is over its size limit."""

    code = "too_large"

    def __init__(self, what: str, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            f"{what} takes {size:,} bytes, the limit is {limit:,}; store the data elsewhere and pass a reference to it"
        )


class NotFound(HoldfastError):
    """Nothing of that kind has that id."""

    code = "not_found"

    def __init__(self, kind: str, id: str) -> None:
        self.kind = kind
        self.id = id
        super().__init__(f"no {kind} {id!r}")


class Conflict(HoldfastError):
    """What the store holds forbids this change."""

    code = "conflict"


class DuplicateJob(Conflict):
    """A job already holds the dedupe key, and on_duplicate is "raise"."""

    code = "duplicate"

    def __init__(self, job_id: str, key: str) -> None:
        self.job_id = job_id
        self.key = key
        super().__init__(f"job {job_id} already holds the dedupe key {key!r}")


class IdTaken(Conflict):
    """The id belongs to a job with another task or payload."""

    code = "id_taken"

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id} exists with another task or payload; choose another id")


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


class QueueFull(HoldfastError):
    """Too many writes are waiting in this process; slow down or retry."""

    code = "queue_full"
    retryable = True


class StorageError(HoldfastError):
    """The database refused or failed."""

    code = "storage"

    def __init__(self, message: str, *, backend: str = "") -> None:
        self.backend = backend
        super().__init__(message)


class StorageBusy(StorageError):
    """Another writer held the lock past the deadline; the call may be repeated."""

    code = "busy"
    retryable = True


class StorageUnavailable(StorageError):
    """The database cannot be reached."""

    code = "unavailable"
    retryable = True


class StorageFull(StorageError):
    """No space is left. Nothing of this call was kept; free space and repeat it."""

    code = "full"
    retryable = True


class StorageReadOnly(StorageError):
    """The file or the server refuses writes."""

    code = "read_only"


class OutcomeUnknown(StorageError):
    """The connection broke at COMMIT: the change may or may not have happened."""

    code = "outcome_unknown"
    retryable = True


class Corruption(StorageError):
    """A stored value that no version of Holdfast writes."""

    code = "corruption"


class SchemaMismatch(StorageError):
    """The schema is older or newer than this version can use."""

    code = "schema"


class NotInTransaction(StorageError):
    """The lent connection has no open transaction to join."""

    code = "not_in_transaction"


class ResultTimeout(HoldfastError, TimeoutError):
    """The job had not finished when the wait ended. It goes on."""

    code = "timeout"


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
