"""Holdfast: a durable job queue and execution engine, on a SQLite file or on Postgres."""

from importlib import import_module as _import
from typing import TYPE_CHECKING

from .version import VERSION as __version__

if TYPE_CHECKING:
    from .app import App
    from .client.tenants import Scoped
    from .clock import ManualClock
    from .errors import (
        AccessDenied,
        BadHandle,
        BeyondScope,
        BlockingCall,
        BudgetNotFound,
        ConfigError,
        Conflict,
        Corruption,
        CursorExpired,
        DuplicateArtifact,
        DuplicateEdge,
        DuplicateJob,
        DuplicateMember,
        FlowCycle,
        FlowEnded,
        FlowNotFound,
        FlowNotSucceeded,
        FlowTooLarge,
        ForeignMember,
        FrameTooLarge,
        HoldfastError,
        IdTaken,
        IllegalMove,
        InvalidAmount,
        InvalidArguments,
        InvalidCursor,
        InvalidFlow,
        InvalidInput,
        InvalidSignature,
        InvalidToken,
        InvalidVersion,
        JobCancelled,
        JobEnded,
        JobExpired,
        JobFailed,
        JobNotSucceeded,
        JobSkipped,
        KeyConflict,
        LeaseLost,
        MissingExtra,
        NoCurrentJob,
        NotAwaited,
        NotFound,
        NotInInventory,
        NotInTransaction,
        OutboxFull,
        OutcomeUnknown,
        PayloadMismatch,
        PayloadTooLarge,
        QueueClosed,
        QueueFull,
        QuotaNotFound,
        RequestFailed,
        ReservedName,
        ResultTimeout,
        SchemaMismatch,
        SelfEdge,
        SelfLocked,
        SignalConflict,
        SpendConflict,
        StaleRevision,
        StepDiverged,
        StepFailed,
        StorageBusy,
        StorageError,
        StorageFull,
        StorageReadOnly,
        StorageUnavailable,
        StreamFull,
        TokenConflict,
        TooManySignals,
        Undecodable,
        UnknownDimension,
        UnknownOption,
        UnknownTask,
        UnknownTenant,
        UrlRefused,
        WrongAnswer,
    )
    from .flows.chains import Chain, Group, group
    from .flows.flow import Flow
    from .flows.handle import FlowHandle
    from .flows.joins import all_of, any_of, quorum
    from .flows.members import Member, Members, Part
    from .model.actions import AlreadySatisfied, Revoked
    from .model.answers import CancelResult, DeleteResult, JobFilter
    from .model.artifacts import Artifact
    from .model.budgets import Budget, Quota
    from .model.flows import CancelPolicy, FlowFilter, FlowState, FlowStatus
    from .model.jobs import JobRecord, JobState
    from .model.outbox import OutboxEvent, Outgoing
    from .model.schedules import Schedule, ScheduleState
    from .model.store import Capabilities
    from .model.streams import Frame, StreamPage
    from .outcomes import Cancel, DeliveryFailed, Fail, JobOutcome, Park, Rejected, Retry, Snooze, Throttle
    from .rules.retry import RetryPolicy, exponential, fixed
    from .tasks.context import Context, SyncContext, current
    from .tasks.inventory import Inventory
    from .tasks.job import Job
    from .tasks.task import JobRequest, Task
    from .tasks.tenants import tenant
    from .worker.settings import WorkerSettings

__all__ = [
    "AccessDenied", "AlreadySatisfied", "App", "Artifact", "BadHandle", "BeyondScope", "BlockingCall", "Budget",
    "BudgetNotFound",
    "Cancel", "CancelPolicy",
    "CancelResult", "Capabilities", "Chain", "ConfigError", "Conflict", "Context", "Corruption", "CursorExpired",
    "DeleteResult", "DeliveryFailed", "DuplicateArtifact",
    "DuplicateEdge", "DuplicateJob", "DuplicateMember", "Fail", "Flow", "FlowCycle", "FlowEnded", "FlowFilter",
    "FlowHandle", "FlowNotFound", "FlowNotSucceeded", "FlowState", "FlowStatus", "FlowTooLarge", "ForeignMember",
    "Frame", "FrameTooLarge", "Group", "HoldfastError", "IdTaken", "IllegalMove", "InvalidAmount", "InvalidArguments",
    "InvalidCursor",
    "InvalidFlow", "InvalidInput", "InvalidSignature", "InvalidToken", "InvalidVersion", "Inventory", "Job",
    "JobCancelled", "JobEnded",
    "JobExpired", "JobFailed", "JobFilter", "JobNotSucceeded", "JobRecord", "JobRequest", "JobOutcome", "JobSkipped",
    "JobState", "KeyConflict", "LeaseLost", "ManualClock", "Member", "Members", "MissingExtra", "NoCurrentJob",
    "NotAwaited",
    "NotFound", "NotInInventory", "NotInTransaction", "OutboxEvent", "OutboxFull", "OutcomeUnknown", "Outgoing",
    "Park", "Part", "PayloadMismatch", "PayloadTooLarge", "QueueClosed",
    "QueueFull", "Quota", "QuotaNotFound", "Rejected", "RequestFailed", "ReservedName", "ResultTimeout", "Retry",
    "RetryPolicy",
    "Revoked", "Schedule",
    "ScheduleState", "SchemaMismatch", "Scoped", "SelfEdge", "SelfLocked", "SignalConflict", "Snooze", "SpendConflict",
    "StaleRevision", "StepDiverged", "StepFailed", "StorageBusy", "StorageError", "StorageFull", "StorageReadOnly",
    "StorageUnavailable", "StreamFull", "StreamPage", "SyncContext", "Task", "Throttle", "TokenConflict",
    "TooManySignals", "Undecodable", "UnknownDimension", "UnknownOption",
    "UnknownTask", "UnknownTenant", "UrlRefused", "WorkerSettings", "WrongAnswer",
    "__version__", "all_of",
    "any_of", "current", "exponential", "fixed", "group", "quorum", "tenant",
]  # fmt: skip

# Where the names live that are not errors. They are imported when first asked for: pytest loads this package in every
# run where Holdfast is installed, to find its fixtures, and the whole takes more than ten times as long.
_HOMES = {
    "AlreadySatisfied": "model.actions",
    "App": "app",
    "Artifact": "model.artifacts",
    "Budget": "model.budgets",
    "Cancel": "outcomes",
    "CancelPolicy": "model.flows",
    "CancelResult": "model.answers",
    "Capabilities": "model.store",
    "Chain": "flows.chains",
    "Context": "tasks.context",
    "DeleteResult": "model.answers",
    "DeliveryFailed": "outcomes",
    "Fail": "outcomes",
    "Flow": "flows.flow",
    "FlowFilter": "model.flows",
    "FlowHandle": "flows.handle",
    "FlowState": "model.flows",
    "FlowStatus": "model.flows",
    "Frame": "model.streams",
    "Group": "flows.chains",
    "Job": "tasks.job",
    "JobFilter": "model.answers",
    "JobRecord": "model.jobs",
    "JobRequest": "tasks.task",
    "JobOutcome": "outcomes",
    "Inventory": "tasks.inventory",
    "JobState": "model.jobs",
    "ManualClock": "clock",
    "OutboxEvent": "model.outbox",
    "Outgoing": "model.outbox",
    "Rejected": "outcomes",
    "Member": "flows.members",
    "Members": "flows.members",
    "Park": "outcomes",
    "Quota": "model.budgets",
    "Part": "flows.members",
    "Retry": "outcomes",
    "RetryPolicy": "rules.retry",
    "Revoked": "model.actions",
    "Schedule": "model.schedules",
    "ScheduleState": "model.schedules",
    "Scoped": "client.tenants",
    "Snooze": "outcomes",
    "StreamPage": "model.streams",
    "SyncContext": "tasks.context",
    "Task": "tasks.task",
    "Throttle": "outcomes",
    "WorkerSettings": "worker.settings",
    "all_of": "flows.joins",
    "any_of": "flows.joins",
    "current": "tasks.context",
    "exponential": "rules.retry",
    "fixed": "rules.retry",
    "group": "flows.chains",
    "quorum": "flows.joins",
    "tenant": "tasks.tenants",
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
