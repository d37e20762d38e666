"""Holdfast: a durable job queue and execution engine, on a SQLite file or on Postgres."""

from importlib import import_module as _import
from typing import TYPE_CHECKING

from .version import VERSION as __version__

if TYPE_CHECKING:
    from .app import App
    from .clock import ManualClock
    from .context import Context, SyncContext
    from .engine.settings import WorkerSettings
    from .errors import (
        ConfigError,
        Conflict,
        Corruption,
        DuplicateJob,
        HoldfastError,
        IdTaken,
        IllegalMove,
        InvalidArguments,
        InvalidInput,
        JobCancelled,
        JobExpired,
        JobFailed,
        JobNotSucceeded,
        JobSkipped,
        LeaseLost,
        NotFound,
        NotInTransaction,
        OutcomeUnknown,
        PayloadTooLarge,
        QueueClosed,
        QueueFull,
        ResultTimeout,
        SchemaMismatch,
        StorageBusy,
        StorageError,
        StorageFull,
        StorageReadOnly,
        StorageUnavailable,
        Undecodable,
        UnknownTask,
    )
    from .handle import Job
    from .model.answers import CancelResult, DeleteResult, JobFilter
    from .model.job import JobRecord, JobState
    from .model.schedule import Schedule, ScheduleState
    from .outcomes import Fail, JobSignal, Park, Retry, Snooze, Throttle
    from .rules.retry import RetryPolicy
    from .tasks import JobRequest, Task

__all__ = [
    "App", "CancelResult", "ConfigError", "Conflict", "Context", "Corruption", "DeleteResult", "DuplicateJob", "Fail",
    "HoldfastError", "IdTaken", "IllegalMove", "InvalidArguments", "InvalidInput", "Job", "JobCancelled", "JobExpired",
    "JobFailed", "JobFilter", "JobNotSucceeded", "JobRecord", "JobRequest", "JobSignal", "JobSkipped", "JobState",
    "LeaseLost", "ManualClock", "NotFound", "NotInTransaction", "OutcomeUnknown", "Park", "PayloadTooLarge",
    "QueueClosed", "QueueFull", "ResultTimeout", "Retry", "RetryPolicy", "Schedule", "ScheduleState",
    "SchemaMismatch", "Snooze", "StorageBusy", "StorageError",
    "StorageFull", "StorageReadOnly", "StorageUnavailable", "SyncContext", "Task", "Throttle", "Undecodable",
    "UnknownTask", "WorkerSettings", "__version__",
]  # fmt: skip

# Where the names live that are not errors. They are imported when first asked for: pytest loads this package in every
# run where Holdfast is installed, to find its fixtures, and the whole takes more than ten times as long.
_HOMES = {
    "App": "app",
    "CancelResult": "model.answers",
    "Context": "context",
    "DeleteResult": "model.answers",
    "Fail": "outcomes",
    "Job": "handle",
    "JobFilter": "model.answers",
    "JobRecord": "model.job",
    "JobRequest": "tasks",
    "JobSignal": "outcomes",
    "JobState": "model.job",
    "ManualClock": "clock",
    "Park": "outcomes",
    "Retry": "outcomes",
    "RetryPolicy": "rules.retry",
    "Schedule": "model.schedule",
    "ScheduleState": "model.schedule",
    "Snooze": "outcomes",
    "SyncContext": "context",
    "Task": "tasks",
    "Throttle": "outcomes",
    "WorkerSettings": "engine.settings",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
        found = getattr(_import(f".{_HOMES.get(name, 'errors')}", __name__), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted(__all__)
