"""Runs the migrations on a SQLite database."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Final
from urllib.parse import quote

from ...errors import SchemaMismatch
from .. import migrate
from ..statements import sql
from .connect import PATIENCE, patiently
from .failures import code
from .location import lacks_log

_RECORD: Final = "insert into holdfast_migration (version, name, applied_at, oldest_writer) values (?, ?, ?, ?)"


def applied(connection: sqlite3.Connection | sqlite3.Cursor) -> list[int]:
    """Return the versions this database has; empty for a fresh one."""
    columns = _columns(connection)
    if not columns:
        return []
    text = migrate.select_applied("sqlite") if "oldest_writer" in columns else migrate.SELECT_VERSIONS
    return [version for (version,) in connection.execute(text).fetchall()]


def foreign_tables(path: str) -> int:
    """Return how many tables of others a file has that has none of Holdfast's; 0 for any other file."""
    if lacks_log(path):
        return 0  # to open it would begin another log; the store says what to do
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        return 0 if "holdfast_migration" in tables else len([name for name in tables if not name.startswith("sqlite_")])
    return 0  # The real opening reports what is wrong with it.


def upgrade(connection: sqlite3.Connection, now: int, deadline: float | None = None) -> list[str]:
    """Apply the missing migrations in one transaction; return their names. Safe in many processes at once."""
    deadline = time.monotonic() + PATIENCE if deadline is None else deadline
    patiently(lambda: connection.execute("begin immediate"), deadline)
    try:
        ran = _apply(connection, now)
        patiently(lambda: connection.execute("commit"), time.monotonic() + PATIENCE)
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    return ran


def upgrade_within(cursor: sqlite3.Cursor, now: int) -> None:
    """Apply the missing migrations in the caller's open transaction, which keeps or undoes them."""
    cursor.execute("savepoint holdfast_schema")
    try:
        _apply(cursor, now)
        cursor.execute("release holdfast_schema")
    except BaseException as error:
        if cursor.connection.in_transaction:
            cursor.execute("rollback to holdfast_schema")
            cursor.execute("release holdfast_schema")
        # BUSY is another writer and worth a retry. LOCKED is a query that is open on this connection, and stays.
        if isinstance(error, sqlite3.Error) and code(error) != sqlite3.SQLITE_BUSY:
            message = (
                f"the schema cannot be brought up to date inside this transaction ({error});"
                ' call app.migrate() at start-up, or run "holdfast db migrate"'
            )
            raise SchemaMismatch(message, backend="sqlite") from error
        raise


def _apply(connection: sqlite3.Connection | sqlite3.Cursor, now: int) -> list[str]:
    connection.execute(migrate.CREATE_TABLE)
    if "oldest_writer" not in _columns(connection):
        connection.execute(migrate.ADD_OLDEST_WRITER)
    missing = migrate.pending(applied(connection), "sqlite")
    for migration in missing:
        for statement in statements(migration.text):
            connection.execute(statement)
        row = (migration.version, migration.name, now, migration.oldest_writer)
        connection.execute(_RECORD, row)
    if missing and connection.execute("select 1 from holdfast_queue where events = 'all'").fetchone():
        connection.execute(sql.hear_new_jobs.sqlite)  # a migration may have dropped the table it was on
    return [migration.name for migration in missing]


def _columns(connection: sqlite3.Connection | sqlite3.Cursor) -> set[str]:
    return {row[1] for row in connection.execute("pragma table_info(holdfast_migration)").fetchall()}


def drop(connection: sqlite3.Connection) -> None:
    """Remove all of Holdfast's tables and views in one transaction."""
    ours = (
        "select type, name from sqlite_master where type in ('table', 'view') and name like 'holdfast\\_%' escape '\\'"
    )
    patiently(lambda: connection.execute("begin immediate"), time.monotonic() + PATIENCE)
    try:
        # By name: attempts go before the jobs that they refer to.
        for kind, name in connection.execute(f"{ours} order by name").fetchall():
            connection.execute(f'drop {kind} "{name}"')
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def statements(text: str) -> Iterator[str]:
    """Split a file where SQLite itself sees the end of a statement, so that a trigger stays whole."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if any(line.strip() and not line.lstrip().startswith("--") for line in statement.splitlines()):
        raise ValueError(f"a statement is not closed: {statement.strip()[:80]!r}")
