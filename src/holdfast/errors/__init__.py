"""Every error Holdfast raises, in one tree.

    HoldfastError                   .code, a stable name for programs
    ├── ConfigError                 a wrong setting; nothing has run
    │   ├── MissingExtra            also an ImportError: its message is the command to run
    │   └── UnknownOption           also a TypeError: the message has the option's name here
    ├── BlockingCall                also a RuntimeError: a wait inside a task, or a blocking one in an event loop
    ├── NotAwaited                  .call, also a RuntimeError: a call of ctx whose await was forgotten
    ├── NoCurrentJob                also a RuntimeError: holdfast.current() where no job runs
    ├── InvalidInput                a value was refused; nothing was written
    │   ├── InvalidArguments        arguments that do not fit the task's signature or cannot be encoded
    │   ├── Undecodable             stored text that is not JSON, or not of the expected type
    │   ├── InvalidVersion          an invalid version or range of versions
    │   ├── NotInInventory          .inventory .name .close, the task's inventory does not have it
    │   ├── UnknownTask             no task of that name is registered or declared
    │   ├── ReservedName            .kind .name, a queue, task or breaker reserved for Holdfast
    │   ├── PayloadTooLarge         .size .limit
    │   │   └── FrameTooLarge       one frame of a stream
    │   ├── PayloadMismatch         a signal that does not fit the awaited type
    │   ├── InvalidToken            forged, expired, used, foreign or unknown; not said which
    │   ├── BadHandle               .why, not a lease handle that this store issued
    │   ├── InvalidCursor           not a cursor that this log or stream issued
    │   ├── UrlRefused              a URL that requests may not go to
    │   ├── InvalidSignature        a webhook not signed with this secret, or too old
    │   ├── UnknownTenant           .tenant, not one of App(tenants=…)
    │   ├── AccessDenied            the token does not allow this worker, queue or task
    │   ├── BeyondScope             .tenant, needs the whole store, in a tenant's view
    │   ├── InvalidAmount           negative, zero, not finite, too large or too fine
    │   ├── UnknownDimension        .budget .dimension, the budget has no such dimension
    │   ├── WrongAnswer             by a destination's function; nothing counts as delivered
    │   └── InvalidFlow             an invalid graph of jobs
    │       ├── SelfEdge            a member would wait for itself
    │       ├── FlowCycle           members would wait for each other
    │       ├── ForeignMember       a member of another flow, or of another tenant
    │       ├── DuplicateEdge       a member would wait for another twice
    │       ├── DuplicateMember     a name or a job is in the flow already
    │       └── FlowTooLarge        too many members, or too deep
    ├── NotFound                    .kind .id
    │   ├── BudgetNotFound
    │   ├── QuotaNotFound
    │   └── FlowNotFound
    ├── Conflict                    the stored state forbids this
    │   ├── DuplicateJob            .job_id, raised only where on_duplicate="raise"
    │   ├── DuplicateArtifact       .job_id .name, the job has one of that name
    │   ├── IdTaken                 the same id with another task or payload
    │   ├── LeaseLost               the caller no longer owns the job; nothing was changed
    │   ├── IllegalMove             the job's state does not allow this
    │   ├── JobEnded                .job_id .state, a finished job takes no signals
    │   ├── SignalConflict          .job_id .key, the same key with another name or payload
    │   ├── TooManySignals          .job_id .limit
    │   ├── StreamFull              .job_id, its stream takes no more durable frames
    │   ├── KeyConflict             a signing key of that name, or another active one, exists
    │   ├── TokenConflict           .name, an active token has that name
    │   ├── SpendConflict           .budget .key, the same key with other amounts
    │   ├── StepDiverged            .key, a durable call is not the one that was recorded
    │   ├── FlowEnded               the flow has ended or was cancelled; nothing can be added
    │   ├── StaleRevision           another caller changed the flow's graph
    │   ├── CursorExpired           .oldest, the entries after the cursor were removed
    │   ├── OutboxFull              .name .cap, too much in the outbox is undelivered
    │   └── QueueClosed             .queue .state, the queue takes no new jobs
    ├── QueueFull                   too many writes are waiting in this process
    ├── StorageError                .backend
    │   ├── StorageBusy             the lock was not free before the deadline
    │   │   └── SelfLocked          the caller's own transaction holds it; pass connection=
    │   ├── StorageUnavailable      the database cannot be reached
    │   ├── StorageFull             no space left; reads still work
    │   ├── StorageReadOnly         the file or server refuses writes
    │   ├── OutcomeUnknown          the connection broke at COMMIT
    │   ├── Corruption              a stored value that no version of Holdfast writes
    │   ├── SchemaMismatch          run "holdfast db migrate"
    │   └── NotInTransaction        the passed connection has no open transaction
    ├── RequestFailed               .kind, a request to another system got no answer
    ├── ResultTimeout               also a TimeoutError
    ├── StepFailed                  raised by ctx.step: .step .type .message, from the step's own exception
    ├── FlowNotSucceeded            raised by a flow's .result(): .flow_id .state .failures
    └── JobNotSucceeded             raised by .result(): .job_id .state .error
        ├── JobFailed
        ├── JobCancelled
        ├── JobExpired
        └── JobSkipped

Expected outcomes are return values, not errors. Each message ends with what to do next.
"""

from __future__ import annotations

from .access import AccessDenied, TokenConflict
from .artifacts import DuplicateArtifact
from .budgets import (
    BudgetNotFound,
    InvalidAmount,
    QuotaNotFound,
    SpendConflict,
    UnknownDimension,
)
from .cursors import (
    CursorExpired,
    InvalidCursor,
)
from .flows import (
    DuplicateEdge,
    DuplicateMember,
    FlowCycle,
    FlowEnded,
    FlowNotFound,
    FlowNotSucceeded,
    FlowTooLarge,
    ForeignMember,
    InvalidFlow,
    SelfEdge,
    StaleRevision,
)
from .inputs import (
    InvalidArguments,
    PayloadTooLarge,
    ReservedName,
    Undecodable,
    UnknownTask,
)
from .jobs import (
    DuplicateJob,
    IdTaken,
    IllegalMove,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobNotSucceeded,
    JobSkipped,
    LeaseLost,
    QueueClosed,
    ResultTimeout,
    StepDiverged,
    StepFailed,
)
from .leases import BadHandle
from .outbound import (
    InvalidSignature,
    RequestFailed,
    UrlRefused,
)
from .outbox import (
    OutboxFull,
    WrongAnswer,
)
from .root import (
    BlockingCall,
    ConfigError,
    Conflict,
    HoldfastError,
    InvalidInput,
    MissingExtra,
    NoCurrentJob,
    NotAwaited,
    NotFound,
    QueueFull,
    UnknownOption,
)
from .routing import (
    InvalidVersion,
    NotInInventory,
)
from .signals import (
    InvalidToken,
    JobEnded,
    KeyConflict,
    PayloadMismatch,
    SignalConflict,
    TooManySignals,
)
from .storage import (
    Corruption,
    NotInTransaction,
    OutcomeUnknown,
    SchemaMismatch,
    SelfLocked,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)
from .streams import (
    FrameTooLarge,
    StreamFull,
)
from .tenants import (
    BeyondScope,
    UnknownTenant,
)

__all__ = [
    "AccessDenied",
    "BadHandle",
    "BeyondScope",
    "BlockingCall",
    "BudgetNotFound",
    "ConfigError",
    "Conflict",
    "Corruption",
    "CursorExpired",
    "DuplicateArtifact",
    "DuplicateEdge",
    "DuplicateJob",
    "DuplicateMember",
    "FlowCycle",
    "FlowEnded",
    "FlowNotFound",
    "FlowNotSucceeded",
    "FlowTooLarge",
    "ForeignMember",
    "FrameTooLarge",
    "HoldfastError",
    "IdTaken",
    "IllegalMove",
    "InvalidAmount",
    "InvalidArguments",
    "InvalidCursor",
    "InvalidFlow",
    "InvalidInput",
    "InvalidSignature",
    "InvalidToken",
    "InvalidVersion",
    "JobCancelled",
    "JobEnded",
    "JobExpired",
    "JobFailed",
    "JobNotSucceeded",
    "JobSkipped",
    "KeyConflict",
    "LeaseLost",
    "MissingExtra",
    "NoCurrentJob",
    "NotAwaited",
    "NotFound",
    "NotInInventory",
    "NotInTransaction",
    "OutboxFull",
    "OutcomeUnknown",
    "PayloadMismatch",
    "PayloadTooLarge",
    "QueueClosed",
    "QueueFull",
    "QuotaNotFound",
    "RequestFailed",
    "ReservedName",
    "ResultTimeout",
    "SchemaMismatch",
    "SelfEdge",
    "SelfLocked",
    "SignalConflict",
    "SpendConflict",
    "StaleRevision",
    "StepDiverged",
    "StepFailed",
    "StorageBusy",
    "StorageError",
    "StorageFull",
    "StorageReadOnly",
    "StorageUnavailable",
    "StreamFull",
    "TokenConflict",
    "TooManySignals",
    "Undecodable",
    "UnknownDimension",
    "UnknownOption",
    "UnknownTask",
    "UnknownTenant",
    "UrlRefused",
    "WrongAnswer",
]
