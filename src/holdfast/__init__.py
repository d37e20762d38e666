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
        DuplicateEdge,
        DuplicateJob,
        DuplicateMember,
        FlowCycle,
        FlowEnded,
        FlowNotFound,
        FlowNotSucceeded,
        FlowTooLarge,
        ForeignMember,
        HoldfastError,
        IdTaken,
        IllegalMove,
        InvalidArguments,
        InvalidFlow,
        InvalidInput,
        InvalidToken,
        JobCancelled,
        JobEnded,
        JobExpired,
        JobFailed,
        JobNotSucceeded,
        JobSkipped,
        KeyConflict,
        LeaseLost,
        NotFound,
        NotInTransaction,
        OutcomeUnknown,
        PayloadMismatch,
        PayloadTooLarge,
        QueueClosed,
        QueueFull,
        ResultTimeout,
        SchemaMismatch,
        SelfEdge,
        SignalConflict,
        StaleRevision,
        StepDiverged,
        StepFailed,
        StorageBusy,
        StorageError,
        StorageFull,
        StorageReadOnly,
        StorageUnavailable,
        TooManySignals,
        Undecodable,
        UnknownTask,
    )
    from .flows.chains import Chain, Group, group
    from .flows.flow import Flow
    from .flows.handle import FlowHandle
    from .flows.joins import all_of, any_of, quorum
    from .flows.members import Member, Members, Part
    from .handle import Job
    from .model.answers import CancelResult, DeleteResult, JobFilter
    from .model.flow import CancelPolicy, FlowFilter, FlowState, FlowStatus
    from .model.job import JobRecord, JobState
    from .model.schedule import Schedule, ScheduleState
    from .outcomes import Fail, JobSignal, Park, Retry, Snooze, Throttle
    from .rules.retry import RetryPolicy
    from .tasks import JobRequest, Task

__all__ = [
    "App", "CancelPolicy", "CancelResult", "Chain", "ConfigError", "Conflict", "Context", "Corruption", "DeleteResult",
    "DuplicateEdge", "DuplicateJob", "DuplicateMember", "Fail", "Flow", "FlowCycle", "FlowEnded", "FlowFilter",
    "FlowHandle", "FlowNotFound", "FlowNotSucceeded", "FlowState", "FlowStatus", "FlowTooLarge", "ForeignMember",
    "Group", "HoldfastError", "IdTaken", "IllegalMove", "InvalidArguments", "InvalidFlow", "InvalidInput",
    "InvalidToken", "Job", "JobCancelled", "JobEnded", "JobExpired", "JobFailed", "JobFilter", "JobNotSucceeded",
    "JobRecord", "JobRequest", "JobSignal", "JobSkipped", "JobState", "KeyConflict", "LeaseLost", "ManualClock",
    "Member", "Members", "NotFound", "NotInTransaction", "OutcomeUnknown", "Park", "Part", "PayloadMismatch",
    "PayloadTooLarge", "QueueClosed", "QueueFull", "ResultTimeout", "Retry", "RetryPolicy", "Schedule",
    "ScheduleState", "SchemaMismatch", "SelfEdge", "SignalConflict", "Snooze", "StaleRevision", "StepDiverged",
    "StepFailed", "StorageBusy", "StorageError", "StorageFull", "StorageReadOnly", "StorageUnavailable", "SyncContext",
    "Task", "Throttle", "TooManySignals", "Undecodable", "UnknownTask", "WorkerSettings", "__version__", "all_of",
    "any_of", "group", "quorum",
]  # fmt: skip

# Where the names live that are not errors. They are imported when first asked for: pytest loads this package in every
# run where Holdfast is installed, to find its fixtures, and the whole takes more than ten times as long.
_HOMES = {
    "App": "app",
    "CancelPolicy": "model.flow",
    "CancelResult": "model.answers",
    "Chain": "flows.chains",
    "Context": "context",
    "DeleteResult": "model.answers",
    "Fail": "outcomes",
    "Flow": "flows.flow",
    "FlowFilter": "model.flow",
    "FlowHandle": "flows.handle",
    "FlowState": "model.flow",
    "FlowStatus": "model.flow",
    "Group": "flows.chains",
    "Job": "handle",
    "JobFilter": "model.answers",
    "JobRecord": "model.job",
    "JobRequest": "tasks",
    "JobSignal": "outcomes",
    "JobState": "model.job",
    "ManualClock": "clock",
    "Member": "flows.members",
    "Members": "flows.members",
    "Park": "outcomes",
    "Part": "flows.members",
    "Retry": "outcomes",
    "RetryPolicy": "rules.retry",
    "Schedule": "model.schedule",
    "ScheduleState": "model.schedule",
    "Snooze": "outcomes",
    "SyncContext": "context",
    "Task": "tasks",
    "Throttle": "outcomes",
    "WorkerSettings": "engine.settings",
    "all_of": "flows.joins",
    "any_of": "flows.joins",
    "group": "flows.chains",
    "quorum": "flows.joins",
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
