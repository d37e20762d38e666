"""Runs the migrations on a SQLite database."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from typing import Final

from .. import migrate
from .connect import PATIENCE, patiently

_RECORD: Final = "insert into holdfast_migration (version, name, applied_at, oldest_writer) values (?, ?, ?, ?)"


def applied(connection: sqlite3.Connection | sqlite3.Cursor) -> list[int]:
    """The versions this database has; empty for a fresh one."""
    columns = _columns(connection)
    if not columns:
        return []
    text = migrate.select_applied("sqlite") if "oldest_writer" in columns else migrate.SELECT_VERSIONS
    return [version for (version,) in connection.execute(text).fetchall()]


def upgrade(connection: sqlite3.Connection, now: int) -> list[str]:
    """Apply what is missing in one transaction; the names of what ran. Safe in many processes at once."""
    deadline = time.monotonic() + PATIENCE
    patiently(lambda: connection.execute("begin immediate"), deadline)
    try:
        connection.execute(migrate.CREATE_TABLE)
        if "oldest_writer" not in _columns(connection):
            connection.execute(migrate.ADD_OLDEST_WRITER)
        missing = migrate.pending(applied(connection), "sqlite")
        for migration in missing:
            for statement in statements(migration.text):
                connection.execute(statement)
            row = (migration.version, migration.name, now, migration.oldest_writer)
            connection.execute(_RECORD, row)
        patiently(lambda: connection.execute("commit"), deadline)
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    return [migration.name for migration in missing]


def _columns(connection: sqlite3.Connection | sqlite3.Cursor) -> set[str]:
    return {row[1] for row in connection.execute("pragma table_info(holdfast_migration)").fetchall()}


def drop(connection: sqlite3.Connection) -> None:
    """Remove every table and view of ours in one transaction."""
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
