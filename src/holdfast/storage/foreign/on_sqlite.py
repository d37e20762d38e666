"""An operation inside a lent sqlite3 transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from ...clock import SYSTEM_CLOCK, Clock
from ..port import Op
from ..sqlite.failures import translated
from ..sqlite.tx import SqliteTx
from ..step import step
from .lent import begin_if_only_promised

T = TypeVar("T")


def run_on_sqlite(connection: sqlite3.Connection, op: Op[T], clock: Clock | None, *, begun: bool) -> tuple[T, set[str]]:
    """The answer, and the topics that it rang."""
    with translated(), _plain_text(connection):
        begin_if_only_promised(connection, begun)
        # Checkpoints are run by the store alone: SQLite before 3.51.3 can lose a commit to two at once.
        connection.execute("pragma wal_autocheckpoint = 0").close()
        cursor = connection.cursor()
        cursor.row_factory = None
        tx = SqliteTx(cursor, (clock or SYSTEM_CLOCK).now())
        with _savepoint(connection):
            return step(op.run(tx)), tx.rung


@contextmanager
def _savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("savepoint holdfast")
    try:
        yield
    except BaseException:
        # A full disk has already rolled everything back, the savepoint included.
        if connection.in_transaction:
            connection.execute("rollback to holdfast")
            connection.execute("release holdfast")
        raise
    connection.execute("release holdfast")


@contextmanager
def _plain_text(connection: sqlite3.Connection) -> Iterator[None]:
    lent_with = connection.text_factory
    connection.text_factory = str
    try:
        yield
    finally:
        connection.text_factory = lent_with
