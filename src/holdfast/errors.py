"""Every error Holdfast raises, in one tree.

    HoldfastError                   .code, a stable name for programs
    ├── ConfigError                 wrong before anything ran
    ├── InvalidInput                a value was refused; nothing was written
    │   ├── InvalidArguments        arguments that do not fit the task's signature or cannot be encoded
    │   ├── Undecodable             stored text that is not JSON, or not of the type that is expected
    │   ├── UnknownTask             no task of that name is registered or declared
    │   ├── PayloadTooLarge         .size .limit
    │   ├── PayloadMismatch         a signal that does not fit the type that is waited for
    │   ├── InvalidToken            forged, expired, used, foreign, unknown: the answer does not say which
    │   └── InvalidFlow             a graph that cannot be; one of those below
    │       ├── SelfEdge            a member would wait for itself
    │       ├── FlowCycle           members would wait for each other
    │       ├── ForeignMember       a member of another flow, or of another tenant
    │       ├── DuplicateEdge       a member would wait for another twice
    │       ├── DuplicateMember     a name or a job is in the flow already
    │       └── FlowTooLarge        too many members, or too deep
    ├── NotFound                    .kind .id
    │   └── FlowNotFound
    ├── Conflict                    the store holds something that forbids this
    │   ├── DuplicateJob            .job_id, raised only where on_duplicate="raise"
    │   ├── IdTaken                 the same id with another task or payload
    │   ├── LeaseLost               the caller no longer owns the job; nothing was changed
    │   ├── IllegalMove             the job's state does not allow this
    │   ├── JobEnded                .job_id .state, a finished job takes no signals
    │   ├── SignalConflict          .job_id .key, the same key with another name or payload
    │   ├── TooManySignals          .job_id .limit
    │   ├── KeyConflict             a signing key of that name, or another active one, is in the way
    │   ├── StepDiverged            .key, a durable call is not the one that was recorded
    │   ├── FlowEnded               the flow has ended or was cancelled; nothing can be added
    │   ├── StaleRevision           the flow's graph was changed by somebody else
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
    ├── StepFailed                  what ctx.step raises: .step .type .message, from the step's own exception
    ├── FlowNotSucceeded            what a flow's .result() raises: .flow_id .state .failures
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


class PayloadMismatch(InvalidInput):
    """A signal's payload does not fit the type that is waited for. Nothing was sent."""

    code = "payload_mismatch"

    def __init__(self, why: str) -> None:
        super().__init__(f"the payload does not fit: {why}")


class InvalidToken(InvalidInput):
    """The token lets nobody send anything. It is not said why: that would help whoever makes them up."""

    code = "invalid_token"

    def __init__(self) -> None:
        super().__init__("the token is not valid, or no longer; ask for a new one")


class InvalidFlow(InvalidInput):
    """A graph of jobs that cannot be. Nothing was written."""

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
    """A flow with too many members, or with too many behind one another."""

    code = "flow_too_large"


class NotFound(HoldfastError):
    """Nothing of that kind has that id."""

    code = "not_found"

    def __init__(self, kind: str, id: str) -> None:
        self.kind = kind
        self.id = id
        super().__init__(f"no {kind} {id!r}")


class FlowNotFound(NotFound):
    """There is no such flow."""

    code = "flow_not_found"

    def __init__(self, id: str) -> None:
        super().__init__("flow", id)


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


class JobEnded(Conflict):
    """The job has finished and takes no signals."""

    code = "job_ended"

    def __init__(self, job_id: str, state: str) -> None:
        self.job_id = job_id
        self.state = state
        super().__init__(f"job {job_id} has {state} and takes no signals")


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

    def __init__(self, job_id: str, limit: int) -> None:
        self.job_id = job_id
        self.limit = limit
        super().__init__(f"job {job_id} has received {limit:,} signals, which is the limit")


class KeyConflict(Conflict):
    """A signing key of that name, or another active one, is in the way."""

    code = "key_conflict"


class FlowEnded(Conflict):
    """The flow has ended or was cancelled; nothing can be added to it any more."""

    code = "flow_ended"


class StaleRevision(Conflict):
    """Somebody else changed the flow's graph since it was read. Read it again, and repeat."""

    code = "stale_revision"


class StepDiverged(Conflict):
    """A durable call is not the one that an earlier run recorded in its place. The job fails; its journal stays."""

    code = "diverged"

    def __init__(self, key: str, why: str) -> None:
        self.key = key
        super().__init__(
            f"{key} {why}; give a changed step a new name, or deploy the code that began this job and retry it"
        )


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


class FlowNotSucceeded(HoldfastError):
    """The flow ended without success. `failures` has the members that did not succeed, with what is known of why."""

    code = "flow_not_succeeded"

    def __init__(self, flow_id: str, state: str, failures: dict[str, str]) -> None:
        self.flow_id = flow_id
        self.state = state
        self.failures = failures
        shown = [f"{name} ({why})" for name, why in list(failures.items())[:3]]
        more = f" and {len(failures) - 3:,} more" if len(failures) > 3 else ""
        super().__init__(f"flow {flow_id} {state}" + (f": {', '.join(shown)}{more}" if shown else ""))


class StepFailed(HoldfastError):
    """A step raised, and has no attempts left. Raised alike where the failure comes from the journal."""

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
