"""Errors of Postgres and its drivers as Holdfast's errors: one table by SQLSTATE.

Works on the errors of psycopg and asyncpg alike, by their `sqlstate`. A message carries the server's first line and
never its DETAIL, which may quote stored values, nor a connection string.
"""

from __future__ import annotations

import re
from typing import Final

import psycopg

from ...errors import (
    Corruption,
    HoldfastError,
    OutcomeUnknown,
    SchemaMismatch,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)
from ..unstorable import holding_nul, refused

LOCK_TIMEOUT: Final = "55P03"
_BY_STATE: Final[dict[str, type[StorageError]]] = {
    "40001": StorageBusy,  # serialization failure
    "40P01": StorageBusy,  # deadlock
    LOCK_TIMEOUT: StorageBusy,
    "57014": StorageBusy,  # statement timeout
    "23505": StorageBusy,  # another transaction committed the same key; run again, the operation sees it
    "53100": StorageFull,  # disk full
    "25006": StorageReadOnly,  # read-only transaction: a standby, or a failover under way
    "25P03": StorageUnavailable,  # idle-in-transaction timeout; the server has closed the connection
    "25P04": StorageUnavailable,  # transaction timeout; likewise
    "57P01": StorageUnavailable,  # server shutting down
    "57P02": StorageUnavailable,  # server crashed
    "57P03": StorageUnavailable,  # server starting
    "57P05": StorageUnavailable,  # idle session timeout
    "58030": StorageUnavailable,  # the server's disk fails
    "42P01": SchemaMismatch,  # no such table
    "42703": SchemaMismatch,  # no such column
    "42883": SchemaMismatch,  # no such function
    "3F000": SchemaMismatch,  # no such schema
    "XX001": Corruption,
    "XX002": Corruption,
}
# A number out of range, an invalid character, and asyncpg's messages for both.
_UNSTORABLE: Final = frozenset({"22000", "22003", "22021", "22P05"})
_BY_CLASS: Final[dict[str, type[StorageError]]] = {
    "08": StorageUnavailable,
    "28": StorageUnavailable,
    "53": StorageUnavailable,
    "3D": StorageUnavailable,
}
_ADVICE: Final[dict[type[StorageError], str]] = {
    StorageBusy: "repeat the call",
    StorageFull: "free space on the server and repeat the call",
    StorageReadOnly: "connect to the primary",
    StorageUnavailable: "check that the server runs and accepts this role",
    SchemaMismatch: 'run "holdfast db migrate"',
    Corruption: "restore the database from a backup",
}


_NO_DATABASE: Final = re.compile(r'FATAL:  database ".*" does not exist')
_CREATE: Final = 'create it with "holdfast db create"'
_GRANTS: Final = (
    'let the owner of the schema run "holdfast db migrate", and grant this role usage on the schema, '
    "and select, insert, update, delete on its tables and usage on its sequences"
)


_ADVICE_BY_STATE: Final = {
    "42501": _GRANTS,
    "25P02": "an earlier statement of your transaction failed: roll it back, and begin another",
}
_CLOSED: Final = "the connection is closed"
"""The driver's message, also for a connection of the caller."""


def translate(error: Exception) -> HoldfastError:
    """Return the Holdfast error for a driver's error that came from a statement."""
    if is_unstorable(error):
        return refused(error) if isinstance(error, UnicodeEncodeError) or _is_of_number(error) else holding_nul()
    kind = _kind(error)
    advice = _CREATE if _is_missing_database(error) else _ADVICE_BY_STATE.get(_state(error)) or _ADVICE.get(kind)
    if str(error) == _CLOSED:
        advice = f"if it is yours, open another; otherwise {advice}"
    return kind(f"{_first_line(error)}; {advice}" if advice else _first_line(error), backend="postgres")


def translate_commit(error: Exception) -> HoldfastError:
    """Translate an error from COMMIT: a lost connection then leaves the outcome unknown."""
    found = translate(error)
    if not isinstance(found, StorageUnavailable):
        return found
    message = f"the connection broke at COMMIT ({_first_line(error)}); read the state again before repeating the call"
    return OutcomeUnknown(message, backend="postgres")


def is_unstorable(error: BaseException) -> bool:
    """Return whether a value cannot be stored, and neither the server nor Holdfast is at fault."""
    if isinstance(error, psycopg.DataError) and error.sqlstate is None:
        return "NUL" in str(error)
    return isinstance(error, UnicodeEncodeError) or getattr(error, "sqlstate", None) in _UNSTORABLE


def is_driver_error(error: BaseException) -> bool:
    """Return whether a database driver raised this, rather than the operation itself."""
    if isinstance(error, psycopg.Error):
        return True
    return type(error).__module__.startswith("asyncpg.")


def spoils_the_pool(error: HoldfastError) -> bool:
    """Return whether the other idle connections are likely to be as useless as the one that failed."""
    return isinstance(error, (StorageUnavailable, StorageReadOnly, OutcomeUnknown))


def _kind(error: Exception) -> type[StorageError]:
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return _BY_STATE.get(state) or _BY_CLASS.get(state[:2]) or StorageError
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, OSError)):
        return StorageUnavailable
    return StorageUnavailable if type(error).__module__ == "asyncpg.exceptions._base" else StorageError


def _is_missing_database(error: Exception) -> bool:
    # While it connects, the driver gives no SQLSTATE, only the server's message.
    state = getattr(error, "sqlstate", None)
    return state == "3D000" or (
        state is None and re.search(r'FATAL:  database ".*" does not exist', str(error)) is not None
    )


def _state(error: Exception) -> str:
    return getattr(error, "sqlstate", None) or ""


def _is_of_number(error: Exception) -> bool:
    return getattr(error, "sqlstate", None) == "22003" or "range" in str(error)


def _first_line(error: Exception) -> str:
    diagnostic = getattr(error, "diag", None)
    primary = getattr(diagnostic, "message_primary", None)
    return primary or next(iter(str(error).splitlines()), "") or type(error).__name__
