"""Runs the migrations on a Postgres database, in one transaction under a lock; creates the database, if it may."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...errors import ConfigError, SchemaMismatch
from .. import migrate
from ..port import Op, Tx
from ..statements import Statement
from ..step import step
from .connect import Connection, address
from .failures import translate, translate_commit
from .tx import PgTx

_TRIES: Final = 6
_DUPLICATE: Final = "42P04"
# Any constant serves, as long as every version of Holdfast takes the same.
_LOCK: Final = 4_851_637_209
_COLUMNS: Final = Statement(
    "migration_columns",
    "",
    "select attname::text from pg_attribute where attrelid = to_regclass('holdfast_migration') and attnum > 0",
)
_SELECT_APPLIED: Final = Statement("select_applied", "", migrate.select_applied("postgres"))
_SELECT_VERSIONS: Final = Statement("select_versions", "", migrate.SELECT_VERSIONS)
_RECORD: Final = (
    "insert into holdfast_migration (version, name, oldest_writer, applied_at)"
    " values (%s, %s, %s, (extract(epoch from statement_timestamp()) * 1000000)::bigint)"
)
# In an order in which nothing is dropped before the objects that depend on it. The names come quoted.
_OURS: Final = """
select 'view', oid::regclass::text, case relname when 'holdfast_any_job' then 1 else 0 end from pg_class
 where relkind = 'v' and relnamespace = current_schema()::regnamespace and relname like 'holdfast\\_%'
union all
select 'table', oid::regclass::text, case relname when 'holdfast_job' then 3 else 2 end from pg_class
 where relkind = 'r' and relnamespace = current_schema()::regnamespace and relname like 'holdfast\\_%'
union all
select 'function', oid::regprocedure::text, 4 from pg_proc
 where pronamespace = current_schema()::regnamespace and proname like 'holdfast\\_%'
 order by 3
"""


async def _applied(tx: Tx) -> list[int]:
    columns = await _columns(tx)
    if not columns:
        return []
    return [version for (version,) in await tx.all(_SELECT_APPLIED if "oldest_writer" in columns else _SELECT_VERSIONS)]


async def _columns(tx: Tx) -> set[str]:
    return {name for (name,) in await tx.all(_COLUMNS)}


APPLIED: Final = Op(_applied)
"""Reads the versions this database has; none for a fresh one."""


def apply(connection: Connection, schema: str | None = None) -> list[str]:
    """Apply the missing migrations; return their names. Safe in many processes at once, and beside running workers."""
    try:
        for _ in range(_TRIES - 1):
            # Workers lock the same tables in another order. All of it was rolled back, and they continued.
            with suppress(psycopg.errors.DeadlockDetected), connection.transaction():
                return _apply(connection, schema)
        with connection.transaction():
            return _apply(connection, schema)
    except psycopg.Error as error:
        raise translate_commit(error) from error


def create_database(dsn: str) -> bool:
    """Create the database that a DSN names, through the server's own `postgres`; False if it existed."""
    name = conninfo_to_dict(dsn).get("dbname")
    if not name:
        raise ConfigError("the Postgres DSN names no database; write postgresql://user@host:5432/database")
    connection = address(make_conninfo(dsn, dbname="postgres"), connect_timeout=5.0, prepare=False).connect()
    try:
        if connection.execute("select 1 from pg_database where datname = %s", (name,)).fetchone():
            return False
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(str(name))))
    except psycopg.Error as error:
        if error.sqlstate == _DUPLICATE:
            return False  # another process was faster
        raise translate(error) from error
    finally:
        connection.close()
    return True


def drop(connection: Connection) -> None:
    """Remove all of Holdfast's views, tables and functions from the current schema, in one transaction."""
    try:
        with connection.transaction():
            # Another session's open transaction must not make this hang, and every producer behind it.
            connection.execute("set local lock_timeout = '5s'")
            connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            for kind, name, _ in connection.execute(_OURS).fetchall():
                connection.execute(sql.SQL("drop {} {}").format(sql.SQL(kind), sql.SQL(name)))
    except psycopg.Error as error:
        raise translate_commit(error) from error


def _apply(connection: Connection, schema: str | None) -> list[str]:
    connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
    if schema is not None:
        connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(schema)))
    _require_a_schema(connection)
    connection.execute(migrate.CREATE_TABLE)
    tx = PgTx(connection.cursor())
    if "oldest_writer" not in step(_columns(tx)):
        connection.execute(migrate.ADD_OLDEST_WRITER)
    missing = migrate.pending(step(_applied(tx)), "postgres")
    for migration in missing:
        # Without parameters the whole file goes in one simple query, which may hold many statements.
        connection.execute(migration.text.encode())
        connection.execute(_RECORD, (migration.version, migration.name, migration.oldest_writer))
    return [migration.name for migration in missing]


def _require_a_schema(connection: Connection) -> None:
    (schema,) = connection.execute("select current_schema()").fetchone() or (None,)
    if schema is None:
        raise SchemaMismatch("no schema of the search_path exists; create one or pass schema=", backend="postgres")
