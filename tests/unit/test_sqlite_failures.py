"""Every result code of SQLite has its place in our error tree."""

from __future__ import annotations

import sqlite3

import pytest

from holdfast.errors import SchemaMismatch, StorageBusy, StorageError, StorageFull, StorageReadOnly
from holdfast.storage.sqlite.failures import FAILURES, code, is_busy, translate

# Not errors, or never returned by the interfaces we use.
NOT_ERRORS = {"SQLITE_OK", "SQLITE_ROW", "SQLITE_DONE", "SQLITE_NOTICE", "SQLITE_WARNING"}


def result_codes() -> dict[str, int]:
    """The primary result codes that the sqlite3 module names; 0 to 28 and the two of stepping."""
    documented = (
        "OK ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN"
        " PROTOCOL EMPTY SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB NOTICE"
        " WARNING ROW DONE"
    )
    names = [f"SQLITE_{name}" for name in documented.split()]
    return {name: getattr(sqlite3, name) for name in names}


@pytest.mark.parametrize("name", sorted(set(result_codes()) - NOT_ERRORS))
def test_each_result_code_is_mapped(name: str) -> None:
    kind, advice = FAILURES[result_codes()[name]]
    assert issubclass(kind, StorageError)
    assert advice


def failure(number: int, text: str = "it failed") -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = number
    return error


def test_an_extended_code_counts_as_its_primary() -> None:
    assert type(translate(failure(sqlite3.SQLITE_BUSY_SNAPSHOT))) is StorageBusy
    assert type(translate(failure(sqlite3.SQLITE_READONLY_DBMOVED))) is StorageReadOnly
    assert is_busy(failure(sqlite3.SQLITE_BUSY_RECOVERY))
    assert not is_busy(failure(sqlite3.SQLITE_FULL))


def test_the_drivers_exception_is_the_cause_and_the_backend_is_named() -> None:
    driver = failure(sqlite3.SQLITE_FULL)
    error = translate(driver)
    assert error.__cause__ is driver
    assert isinstance(error, StorageFull)
    assert error.backend == "sqlite"


def test_a_complaint_of_the_driver_itself_is_a_plain_storage_error() -> None:
    error = sqlite3.ProgrammingError("Cannot operate on a closed database.")
    assert code(error) == 0
    assert type(translate(error)) is StorageError


def test_a_missing_table_of_ours_asks_for_the_migration() -> None:
    with pytest.raises(SchemaMismatch, match="holdfast db migrate"):
        raise translate(failure(sqlite3.SQLITE_ERROR, "no such table: holdfast_job"))
