"""The one table from SQLite's result codes to our errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ...errors import (
    Corruption,
    HoldfastError,
    SchemaMismatch,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)

# By primary code, the low byte of an extended one. Codes that mean a fault in our own statements (ERROR, MISUSE,
# RANGE, MISMATCH, CONSTRAINT, TOOBIG, …) are plain StorageError: nothing a caller could repeat.
FAILURES: Final[dict[int, tuple[type[StorageError], str]]] = {
    sqlite3.SQLITE_BUSY: (StorageBusy, "another connection holds the lock; repeat the call"),
    sqlite3.SQLITE_LOCKED: (StorageBusy, "another connection of this process holds the table; repeat the call"),
    sqlite3.SQLITE_INTERRUPT: (StorageBusy, "the statement was interrupted; repeat the call"),
    sqlite3.SQLITE_FULL: (StorageFull, "nothing was written; free disk space and repeat the call"),
    sqlite3.SQLITE_READONLY: (StorageReadOnly, "make the file and its directory writable for this user"),
    sqlite3.SQLITE_PERM: (StorageReadOnly, "make the file and its directory accessible for this user"),
    sqlite3.SQLITE_AUTH: (StorageReadOnly, "the connection's authorizer refuses this"),
    sqlite3.SQLITE_CANTOPEN: (StorageUnavailable, "check the path, its directory and the permissions"),
    sqlite3.SQLITE_IOERR: (StorageUnavailable, "check the disk and its file system"),
    sqlite3.SQLITE_PROTOCOL: (StorageUnavailable, "the file's locks do not work; keep it on a local disk"),
    sqlite3.SQLITE_NOLFS: (StorageUnavailable, "the file system cannot hold a file of this size"),
    sqlite3.SQLITE_NOMEM: (StorageUnavailable, "the process is out of memory"),
    sqlite3.SQLITE_CORRUPT: (Corruption, 'run "holdfast db verify", and restore a backup if it fails'),
    sqlite3.SQLITE_NOTADB: (Corruption, "the file is not a SQLite database, or is encrypted; choose another path"),
    sqlite3.SQLITE_FORMAT: (Corruption, "the file is not a SQLite database; choose another path"),
    sqlite3.SQLITE_SCHEMA: (SchemaMismatch, "the schema changed under a statement; repeat the call"),
    sqlite3.SQLITE_ERROR: (StorageError, "this is a bug in Holdfast, or a foreign schema"),
    sqlite3.SQLITE_INTERNAL: (StorageError, "this is a bug in SQLite"),
    sqlite3.SQLITE_ABORT: (StorageError, "the transaction was rolled back by another operation"),
    sqlite3.SQLITE_CONSTRAINT: (StorageError, "a rule of the schema forbids this"),
    sqlite3.SQLITE_MISMATCH: (StorageError, "a value has the wrong type"),
    sqlite3.SQLITE_TOOBIG: (StorageError, "a value is too big for SQLite"),
    sqlite3.SQLITE_MISUSE: (StorageError, "this is a bug in Holdfast"),
    sqlite3.SQLITE_RANGE: (StorageError, "this is a bug in Holdfast"),
    sqlite3.SQLITE_NOTFOUND: (StorageError, "this is a bug in Holdfast"),
    sqlite3.SQLITE_EMPTY: (StorageError, "this is a bug in SQLite"),
}

_PLAIN: Final = (StorageError, "this is a bug in Holdfast, or a misused connection")


def translate(error: sqlite3.Error | sqlite3.Warning) -> HoldfastError:
    """Return the typed error for a driver's exception, with it as the cause."""
    kind, advice = FAILURES.get(code(error), _PLAIN)
    if "no such table: holdfast_" in str(error):
        kind, advice = SchemaMismatch, 'run "holdfast db migrate"'
    translated = kind(f"{error}; {advice}", backend="sqlite")
    translated.__cause__ = error
    return translated


@contextmanager
def translated() -> Iterator[None]:
    """Raise our errors in place of the driver's."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise translate(error) from error


def is_busy(error: BaseException) -> bool:
    """Return whether another connection holds a lock: waiting may help."""
    return isinstance(error, sqlite3.OperationalError) and code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def code(error: BaseException) -> int:
    """Return SQLite's primary result code, 0 where the driver itself raised the error."""
    found: object = getattr(error, "sqlite_errorcode", None)
    return found & 0xFF if isinstance(found, int) else 0
