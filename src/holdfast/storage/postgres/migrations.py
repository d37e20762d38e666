"""Runs the migrations on a Postgres database, in one transaction under a lock."""

from __future__ import annotations

from typing import Final

import psycopg

from ...errors import SchemaMismatch
from .. import migrate
from .connect import Connection
from .failures import translate, translate_commit

# Any constant serves, as long as every version of Holdfast takes the same.
_LOCK: Final = 4_851_637_209
_HAS_TABLE: Final = "select to_regclass('holdfast_migration') is not null"
_RECORD: Final = (
    "insert into holdfast_migration (version, name, applied_at)"
    " values (%s, %s, (extract(epoch from statement_timestamp()) * 1000000)::bigint)"
)


def apply(connection: Connection, schema: str | None = None) -> list[str]:
    """Apply what is missing; the names of what ran. Safe in many processes at once."""
    try:
        with connection.transaction():
            names = _apply(connection, schema)
    except psycopg.Error as error:
        raise translate_commit(error) from error
    return names


def applied(connection: Connection) -> list[int]:
    """The versions this database has; empty for a fresh one."""
    try:
        return _versions(connection)
    except psycopg.Error as error:
        raise translate(error) from error


def check(connection: Connection) -> None:
    """Raise SchemaMismatch unless the schema is the one this code writes."""
    migrate.check(applied(connection), "postgres")


def _apply(connection: Connection, schema: str | None) -> list[str]:
    connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
    if schema is not None:
        connection.execute(psycopg.sql.SQL("create schema if not exists {}").format(psycopg.sql.Identifier(schema)))
    _require_a_schema(connection)
    connection.execute(migrate.CREATE_TABLE)
    missing = migrate.pending(_versions(connection), "postgres")
    for migration in missing:
        # Without parameters the whole file goes in one simple query, which may hold many statements.
        connection.execute(migration.text.encode())
        connection.execute(_RECORD, (migration.version, migration.name))
    return [migration.name for migration in missing]


def _require_a_schema(connection: Connection) -> None:
    (schema,) = connection.execute("select current_schema()").fetchone() or (None,)
    if schema is None:
        raise SchemaMismatch("no schema of the search_path exists; create one or pass schema=", backend="postgres")


def _versions(connection: Connection) -> list[int]:
    (exists,) = connection.execute(_HAS_TABLE).fetchone() or (False,)
    return [version for (version,) in connection.execute(migrate.SELECT_APPLIED)] if exists else []
