"""Holdfast: a durable job queue and execution engine, on a SQLite file or on Postgres."""

from .app import App
from .clock import ManualClock
from .context import Context, SyncContext
from .engine.settings import WorkerSettings
from .errors import (
    ConfigError, Conflict, Corruption, DuplicateJob, HoldfastError, IdTaken, IllegalMove, InvalidArguments,
    InvalidInput, JobCancelled, JobExpired, JobFailed, JobNotSucceeded, JobSkipped, LeaseLost, NotFound,
    NotInTransaction, OutcomeUnknown, PayloadTooLarge, QueueFull, ResultTimeout, SchemaMismatch, StorageBusy,
    StorageError, StorageFull, StorageReadOnly, StorageUnavailable, Undecodable, UnknownTask,
)  # fmt: skip
from .handle import Job
from .model.answers import CancelResult, DeleteResult, JobFilter
from .model.job import JobRecord, JobState
from .outcomes import Fail, JobSignal, Park, Retry, Snooze, Throttle
from .rules.retry import RetryPolicy
from .tasks import JobRequest, Task
from .version import VERSION as __version__

__all__ = [
    "App", "CancelResult", "ConfigError", "Conflict", "Context", "Corruption", "DeleteResult", "DuplicateJob", "Fail",
    "HoldfastError", "IdTaken", "IllegalMove", "InvalidArguments", "InvalidInput", "Job", "JobCancelled", "JobExpired",
    "JobFailed", "JobFilter", "JobNotSucceeded", "JobRecord", "JobRequest", "JobSignal", "JobSkipped", "JobState",
    "LeaseLost", "ManualClock", "NotFound", "NotInTransaction", "OutcomeUnknown", "Park", "PayloadTooLarge",
    "QueueFull", "ResultTimeout", "Retry", "RetryPolicy", "SchemaMismatch", "Snooze", "StorageBusy", "StorageError",
    "StorageFull", "StorageReadOnly", "StorageUnavailable", "SyncContext", "Task", "Throttle", "Undecodable",
    "UnknownTask", "WorkerSettings", "__version__",
]  # fmt: skip
