"""Errors of the database."""

from __future__ import annotations

from .root import HoldfastError


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
