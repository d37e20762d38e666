"""Every error Holdfast raises, in one tree.

    HoldfastError                   .code, a stable name for programs
    ├── ConfigError                 a wrong setting; nothing has run
    │   ├── MissingExtra            also an ImportError: its message is the command to run
    │   └── UnknownOption           also a TypeError: the message has the option's name here
    ├── BlockingCall                also a RuntimeError: a wait in a task or an import, or one that blocks an event loop
    ├── NotAwaited                  .call, also a RuntimeError: a call of ctx whose await was forgotten
    ├── NoCurrentJob                also a RuntimeError: holdfast.current() where no job runs
    ├── InvalidInput                a value was refused; nothing was written
    │   ├── InvalidArguments        arguments that do not fit the task's signature or cannot be encoded
    │   │   └── UnexpectedReference  a result of another job, outside of a flow
    │   ├── Undecodable             stored text that is not JSON, or not of the expected type
    │   ├── InvalidVersion          an invalid version or range of versions
    │   ├── NotInInventory          .inventory .name .close, the task's inventory does not have it
    │   ├── UnknownZone             not in this machine's time zone database
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
    ├── ResourceFailed              .resource, it could not be opened; the job is retried
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

from collections.abc import Sequence
from typing import ClassVar, Final

__all__ = [
    "AccessDenied", "BadHandle", "BeyondScope", "BlockingCall", "BudgetNotFound", "ConfigError", "Conflict",
    "Corruption", "CursorExpired", "DuplicateArtifact", "DuplicateEdge", "DuplicateJob", "DuplicateMember",
    "FlowCycle", "FlowEnded", "FlowNotFound", "FlowNotSucceeded", "FlowTooLarge", "ForeignMember",
    "FrameTooLarge", "HoldfastError", "IdTaken", "IllegalMove", "InvalidAmount", "InvalidArguments",
    "InvalidCursor", "InvalidFlow", "InvalidInput", "InvalidSignature", "InvalidToken", "InvalidVersion",
    "JobCancelled", "JobEnded", "JobExpired", "JobFailed", "JobNotSucceeded", "JobSkipped", "KeyConflict",
    "LeaseLost", "MissingExtra", "NoCurrentJob", "NotAwaited", "NotFound", "NotInInventory", "NotInTransaction",
    "OutboxFull", "OutcomeUnknown", "PayloadMismatch", "PayloadTooLarge", "QueueClosed", "QueueFull",
    "QuotaNotFound", "RequestFailed", "ReservedName", "ResourceFailed", "ResultTimeout", "SchemaMismatch", "SelfEdge",
    "SelfLocked", "SignalConflict", "SpendConflict", "StaleRevision", "StepDiverged", "StepFailed", "StorageBusy",
    "StorageError", "StorageFull", "StorageReadOnly", "StorageUnavailable", "StreamFull", "TokenConflict",
    "TooManySignals", "Undecodable", "UnexpectedReference", "UnknownDimension", "UnknownOption", "UnknownTask",
    "UnknownTenant", "UnknownZone", "UrlRefused", "WrongAnswer",
]  # fmt: skip


# -- families


_ANYWHERE: Final = "check the name and the store"
_WHERE: Final = {
    "job": "check the id and the store, and that the transaction it was enqueued in has been committed",
    "flow": "check the id and the store, and that the transaction it was stored in has been committed",
    "budget": "make it with app.budgets.set or: holdfast budgets set",
    "quota": "make it with app.quotas.set or: holdfast quotas set",
    "rate": "make it with app.rate or: holdfast limits rate",
    "breaker": "make it with app.breaker or: holdfast breakers set",
    "schedule": "see: holdfast cron list",
    "worker": "see: holdfast workers list",
    "token": "see: holdfast tokens list",
    "key": "see: holdfast keys list",
    "queue": "see: holdfast queues list",
}


class HoldfastError(Exception):
    """The root of all errors raised by Holdfast."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False


class ConfigError(HoldfastError):
    """A setting is wrong; nothing has run."""

    code = "config"


class UnknownOption(ConfigError, TypeError):
    """No such option exists; the message says what it is called here."""

    code = "unknown_option"


class MissingExtra(ConfigError, ImportError):
    """A package that this part of Holdfast needs is not installed; the message is the command that installs it."""

    code = "missing_extra"

    PACKAGES: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgres": ("psycopg",),
        "web": ("starlette", "uvicorn", "jinja2", "httpcore2"),
        "otel": ("opentelemetry",),
        "sentry": ("sentry_sdk",),
        "fastapi": ("fastapi", "starlette", "uvicorn", "jinja2", "httpcore2"),
        "flask": ("flask",),
        "litestar": ("litestar",),
        "langgraph": ("langgraph", "langchain_core"),
        "openai_agents": ("agents", "openai"),
        "pydantic_ai": ("pydantic_ai",),
    }

    @classmethod
    def explains(cls, missing: ImportError, extra: str) -> bool:
        """Return whether an extra would install what could not be imported."""
        return (missing.name or "").partition(".")[0] in cls.PACKAGES[extra]

    def __init__(self, what: str, missing: ImportError, extra: str) -> None:
        package = missing.name or "a package"
        super().__init__(f'{what} needs {package}, which cannot be imported; run: pip install "holdfast[{extra}]"')
        self.name = missing.name


class BlockingCall(HoldfastError, RuntimeError):
    """A wait in a task or an import, or a blocking wait in an event loop, could last forever. Nothing was awaited."""

    code = "blocking_call"


class NotAwaited(HoldfastError, RuntimeError):
    """A handler never awaited a call of its context; the call was not made, and the job fails."""

    code = "not_awaited"

    def __init__(self, call: str) -> None:
        self.call = call
        name = call.partition("(")[0]
        super().__init__(f"ctx.{call} was never awaited, so it was not done; write: await ctx.{name}(…)")


class NoCurrentJob(HoldfastError, RuntimeError):
    """`holdfast.current()` was called where no job runs."""

    code = "no_current_job"

    def __init__(self, *, ended: bool = False, batch: str = "") -> None:
        super().__init__(
            f"task {batch!r} takes batches, and no single job runs here; each item has its own: item.id, item.job"
            if batch
            else "the job that started this code has ended; await or join what a handler starts before it returns"
            if ended
            else "no job runs here; call holdfast.current() in a handler or below it. A thread that you start yourself"
            " needs the handler's context: contextvars.copy_context().run(…), or asyncio.to_thread"
        )


class InvalidInput(HoldfastError):
    """A value was refused before anything was written."""

    code = "invalid"


class NotFound(HoldfastError):
    """There is no object of that kind with that id."""

    code = "not_found"

    def __init__(self, kind: str, id: str) -> None:
        self.kind = kind
        self.id = id
        super().__init__(f"no {kind} {id!r}; {_WHERE.get(kind, _ANYWHERE)}")


class Conflict(HoldfastError):
    """The stored state forbids this change."""

    code = "conflict"


class QueueFull(HoldfastError):
    """Too many writes are waiting in this process; slow down or retry."""

    code = "queue_full"
    retryable = True


# -- inputs


class InvalidArguments(InvalidInput):
    """The arguments do not fit the task's signature, or cannot be encoded."""

    code = "invalid_arguments"


class UnexpectedReference(InvalidArguments):
    """A result of another job in a place where it will not be filled in."""

    code = "unexpected_reference"

    def __init__(self, reference: object) -> None:
        super().__init__(
            f"{reference!r} is a result that is not there yet; it can only be an argument of a job in the same flow: "
            "flow.add(task.job(a.output))"
        )


class UnknownZone(InvalidInput):
    """This machine's time zone database has no such zone."""

    code = "unknown_zone"


class Undecodable(InvalidInput):
    """Stored text that is not JSON, or that does not fit the type it is read as."""

    code = "undecodable"
    unknown: tuple[str, ...] = ()
    """Arguments of the stored job that this code's task lacks; newer code may have them."""


class UnknownTask(InvalidInput):
    """No task of that name is registered or declared in this app."""

    code = "unknown_task"


class ReservedName(InvalidInput):
    """The name of a queue, task or breaker that is reserved for Holdfast itself."""

    code = "reserved_name"

    def __init__(self, kind: str, name: str, remedy: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(f"{kind} {name!r} is reserved for Holdfast itself; {remedy}")


class PayloadTooLarge(InvalidInput):
    """An encoded value is over its size limit."""

    code = "too_large"

    def __init__(
        self, what: str, size: int, limit: int, remedy: str = "store the data elsewhere and pass a reference to it"
    ) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"{what} takes {size:,} bytes, the limit is {limit:,}; {remedy}")


# -- jobs


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
        super().__init__(f"job {job_id} {state}" + (f": {error}" if error and error != state else ""))


class JobFailed(JobNotSucceeded):
    """The job failed and will not be retried."""

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


# -- storage


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


class SelfLocked(StorageBusy):
    """The caller's own open transaction holds the lock, so the call would wait for itself; nothing was written."""

    code = "self_locked"
    retryable = False


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
    """The connection that was passed has no open transaction to join."""

    code = "not_in_transaction"


# -- access


class TokenConflict(Conflict):
    """An active token has that name."""

    code = "token_conflict"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"a token named {name!r} is in force; revoke it first, or choose another name")


class AccessDenied(InvalidInput):
    """The caller's token does not allow this: another caller's worker, or a queue or task outside of its own."""

    code = "access_denied"

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")


# -- artifacts


class DuplicateArtifact(Conflict):
    """The job already has an artifact of that name, which is unchanged."""

    code = "duplicate_artifact"

    def __init__(self, job_id: str, name: str) -> None:
        self.job_id = job_id
        self.name = name
        super().__init__(f"job {job_id} has an artifact {name!r} already; give each a name of its own")


# -- budgets


class InvalidAmount(InvalidInput):
    """An amount that is negative, zero, not finite, too large, or finer than a millionth."""

    code = "invalid_amount"


class UnknownDimension(InvalidInput):
    """The budget has no such dimension."""

    code = "unknown_dimension"

    def __init__(self, budget: str, dimension: str, known: tuple[str, ...]) -> None:
        self.budget = budget
        self.dimension = dimension
        super().__init__(f"budget {budget!r} has no dimension {dimension!r}; it has {', '.join(known) or 'none'}")


class BudgetNotFound(NotFound):
    """There is no such budget."""

    code = "budget_not_found"

    def __init__(self, name: str) -> None:
        super().__init__("budget", name)


class QuotaNotFound(NotFound):
    """There is no such quota."""

    code = "quota_not_found"

    def __init__(self, name: str) -> None:
        super().__init__("quota", name)


class SpendConflict(Conflict):
    """A spend with that key was recorded, with other amounts."""

    code = "spend_conflict"

    def __init__(self, budget: str, key: str) -> None:
        self.budget = budget
        self.key = key
        super().__init__(f"budget {budget!r} has a spend with the key {key!r} and other amounts; use a new key")


# -- cursors


class InvalidCursor(InvalidInput):
    """Not a cursor that this log or stream issued."""

    code = "invalid_cursor"


class CursorExpired(Conflict):
    """The entries after the cursor were removed; reading can resume at `oldest`."""

    code = "cursor_expired"

    def __init__(self, message: str, oldest: str) -> None:
        self.oldest = oldest
        super().__init__(message)


# -- flows


class InvalidFlow(InvalidInput):
    """An invalid graph of jobs. Nothing was written."""

    code = "invalid_flow"


class SelfEdge(InvalidFlow):
    """A member would wait for itself."""

    code = "self_edge"


class FlowCycle(InvalidFlow):
    """Members would wait for each other, and none could start."""

    code = "flow_cycle"


class ForeignMember(InvalidFlow):
    """A member of another flow or another tenant, or no member at all."""

    code = "foreign_member"


class DuplicateEdge(InvalidFlow):
    """A member would wait for another twice."""

    code = "duplicate_edge"


class DuplicateMember(InvalidFlow):
    """A member of that name, or with that job, is in a flow already."""

    code = "duplicate_member"


class FlowTooLarge(InvalidFlow):
    """A flow with too many members, or too long a chain of them."""

    code = "flow_too_large"


class FlowNotFound(NotFound):
    """There is no such flow."""

    code = "flow_not_found"

    def __init__(self, id: str) -> None:
        super().__init__("flow", id)


class FlowEnded(Conflict):
    """The flow has ended or was cancelled; nothing can be added to it any more."""

    code = "flow_ended"


class StaleRevision(Conflict):
    """Another caller changed the flow's graph since it was read. Read it again, and repeat."""

    code = "stale_revision"
    retryable = True


class FlowNotSucceeded(HoldfastError):
    """The flow ended without success. `failures` has the members that did not succeed, each with the reason."""

    code = "flow_not_succeeded"

    def __init__(self, flow_id: str, state: str, failures: dict[str, str]) -> None:
        self.flow_id = flow_id
        self.state = state
        self.failures = failures
        shown = [f"{name} ({why})" for name, why in list(failures.items())[:3]]
        more = f" and {len(failures) - 3:,} more" if len(failures) > 3 else ""
        super().__init__(f"flow {flow_id} {state}" + (f": {', '.join(shown)}{more}" if shown else ""))


# -- remote workers


class BadHandle(InvalidInput):
    """Not a handle that this store gave out; nothing was changed. `why`: corrupt, version or foreign."""

    code = "bad_handle"

    def __init__(self, why: str, message: str) -> None:
        self.why = why
        super().__init__(message)


# -- requests to other systems


class UrlRefused(InvalidInput):
    """Requests may not go to this URL: its form, scheme, port or resolved address is not allowed."""

    code = "url_refused"


class RequestFailed(HoldfastError):
    """A request got no answer. `kind` says why: dns, connect, tls, timeout, protocol or broken."""

    code = "request_failed"
    retryable = True

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class ResourceFailed(HoldfastError):
    """A resource that a handler needs could not be opened. `resource` is its name."""

    code = "resource_failed"
    retryable = True

    def __init__(self, resource: str, why: str) -> None:
        self.resource = resource
        super().__init__(f"resource {resource!r} could not be opened: {why}")


class InvalidSignature(InvalidInput):
    """A webhook that was not signed with this secret, or is too old. The message does not say which."""

    code = "invalid_signature"

    def __init__(self) -> None:
        super().__init__("the message is not signed with this secret, or is too old; check the secret and both clocks")


# -- outbox


class OutboxFull(Conflict):
    """The outbox is at its cap, and holds no delivered or abandoned entry that could be removed."""

    code = "outbox_full"
    retryable = True

    def __init__(self, name: str, cap: int) -> None:
        self.name = name
        self.cap = cap
        super().__init__(f"outbox {name!r} has {cap:,} undelivered entries, its cap; look why they are not delivered")


class WrongAnswer(InvalidInput):
    """A destination's function returned an invalid value. Nothing counts as delivered."""

    code = "wrong_answer"


# -- routing


class InvalidVersion(InvalidInput):
    """A version or a version range that cannot be parsed, or a range that contains no version."""

    code = "invalid_version"


class NotInInventory(InvalidInput):
    """The job's affinity is not in the inventory of its task."""

    code = "not_in_inventory"

    def __init__(self, inventory: str, name: str, close: Sequence[str]) -> None:
        self.inventory = inventory
        self.name = name
        self.close = tuple(close)
        advice = f"did you mean {' or '.join(map(repr, close))}?" if close else "see what it has with .names()"
        super().__init__(f"inventory {inventory!r} has no {name!r}; {advice}")


# -- signals


class PayloadMismatch(InvalidInput):
    """A signal's payload does not fit the awaited type. Nothing was sent."""

    code = "payload_mismatch"

    def __init__(self, why: str) -> None:
        super().__init__(f"the payload does not fit: {why}")


class InvalidToken(InvalidInput):
    """The token is invalid. The message does not say why: that would help an attacker."""

    code = "invalid_token"

    def __init__(self, advice: str = "ask for a new one") -> None:
        super().__init__(f"invalid or expired token; {advice}")


class JobEnded(Conflict):
    """The job has finished and takes no signals."""

    code = "job_ended"

    def __init__(self, job_id: str, state: str) -> None:
        self.job_id = job_id
        self.state = state
        super().__init__(
            f"job {job_id} has ended ({state}) and takes no signals; to let it run again: holdfast jobs retry {job_id}"
        )


class SignalConflict(Conflict):
    """A signal with that key was accepted, with another name or payload."""

    code = "signal_conflict"

    def __init__(self, job_id: str, key: str) -> None:
        self.job_id = job_id
        self.key = key
        super().__init__(f"job {job_id} has a signal with the key {key!r} and another name or payload; use a new key")


class TooManySignals(Conflict):
    """The job's mailbox takes no more signals."""

    code = "too_many_signals"
    retryable = True

    def __init__(self, job_id: str, limit: int) -> None:
        self.job_id = job_id
        self.limit = limit
        super().__init__(
            f"job {job_id} has received {limit:,} signals, which is the limit; send what is new to a new job"
        )


class KeyConflict(Conflict):
    """A signing key of that name, or another active one, exists."""

    code = "key_conflict"


# -- streams


class FrameTooLarge(PayloadTooLarge):
    """A frame is over its size limit. Nothing of it was emitted."""

    code = "frame_too_large"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__("the frame", size, limit, "emit it in pieces, or store an artifact")


class StreamFull(Conflict):
    """The job's stream takes no more durable frames."""

    code = "stream_full"

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"the stream of job {job_id} is full: 1,000,000 frames or 256 MiB; emit larger frames, best-effort ones, "
            "or write an artifact"
        )


# -- tenants


class UnknownTenant(InvalidInput):
    """The tenant is not one of those that `App(tenants=…)` names."""

    code = "unknown_tenant"

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        super().__init__(f"there is no tenant {tenant!r}; App(tenants=…) says which there are")


class BeyondScope(InvalidInput):
    """The action needs the whole store, and this view is limited to one tenant."""

    code = "beyond_scope"

    def __init__(self, what: str, tenant: str) -> None:
        self.tenant = tenant
        super().__init__(f"not available to users of tenant {tenant!r}: {what}")
