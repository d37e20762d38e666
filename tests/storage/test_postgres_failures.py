"""Every error a driver can raise has a place in Holdfast's tree."""

from __future__ import annotations

import psycopg
import pytest
from asyncpg import exceptions as asyncpg_errors
from psycopg import errors as psycopg_errors

from holdfast.errors import (
    Corruption,
    InvalidInput,
    OutcomeUnknown,
    SchemaMismatch,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)
from holdfast.storage.postgres.failures import is_driver_error, translate, translate_commit

EXPECTED = {
    "40001": StorageBusy,
    "40P01": StorageBusy,
    "55P03": StorageBusy,
    "57014": StorageBusy,
    "53100": StorageFull,
    "53200": StorageUnavailable,
    "53300": StorageUnavailable,
    "25006": StorageReadOnly,
    "08006": StorageUnavailable,
    "57P01": StorageUnavailable,
    "57P02": StorageUnavailable,
    "57P03": StorageUnavailable,
    "28P01": StorageUnavailable,
    "3D000": StorageUnavailable,
    "42P01": SchemaMismatch,
    "42703": SchemaMismatch,
    "42883": SchemaMismatch,
    "3F000": SchemaMismatch,
    "XX001": Corruption,
    "23505": StorageBusy,
    "23502": StorageError,
    "42501": StorageError,
    "P0001": StorageError,
}


@pytest.mark.parametrize(("state", "kind"), EXPECTED.items())
def test_a_sqlstate_means_the_same_from_both_drivers(state: str, kind: type[StorageError]) -> None:
    from_psycopg = psycopg_errors.lookup(state)("the server's words")
    from_asyncpg = asyncpg_errors.PostgresError.new({"C": state, "M": "the server's words"})
    assert type(translate(from_psycopg)) is kind
    assert type(translate(from_asyncpg)) is kind
    assert is_driver_error(from_psycopg)
    assert is_driver_error(from_asyncpg)
    assert "the server's words" in str(translate(from_psycopg))


@pytest.mark.parametrize("state", ["22003", "22021", "22P05"])
def test_what_no_database_keeps_is_the_callers_mistake_and_not_the_stores(state: str) -> None:
    for error in (psycopg_errors.lookup(state)("words"), asyncpg_errors.PostgresError.new({"C": state, "M": "words"})):
        assert type(translate(error)) is InvalidInput
        assert type(translate_commit(error)) is InvalidInput


def test_no_class_of_the_driver_is_left_out() -> None:
    classes = [found for found in vars(psycopg_errors).values() if _is_error(found)]
    assert len(classes) > 200
    assert all(isinstance(translate(found("words")), StorageError | InvalidInput) for found in classes)


@pytest.mark.parametrize("error", [psycopg.OperationalError("gone"), psycopg.InterfaceError("gone")])
def test_an_error_without_a_sqlstate_is_a_lost_connection(error: psycopg.Error) -> None:
    assert type(translate(error)) is StorageUnavailable


def test_only_a_lost_connection_leaves_the_outcome_of_a_commit_unknown() -> None:
    assert type(translate_commit(psycopg.OperationalError("gone"))) is OutcomeUnknown
    assert type(translate_commit(psycopg_errors.SerializationFailure("again"))) is StorageBusy
    assert type(translate_commit(psycopg_errors.DiskFull("full"))) is StorageFull


def test_details_that_quote_stored_values_are_left_out() -> None:
    error = psycopg_errors.UniqueViolation("duplicate key value\nDETAIL:  Key (name)=(secret) already exists.")
    assert "secret" not in str(translate(error))


def _is_error(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, psycopg.Error)
