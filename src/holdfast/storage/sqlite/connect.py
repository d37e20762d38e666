"""Opens connections with the settings that Holdfast's guarantees need."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ...errors import ConfigError
from .failures import code, is_busy, translated
from .location import Location

T = TypeVar("T")

PATIENCE: Final = 5.0
"""Seconds to try for a lock."""


class ReadingConnection(sqlite3.Connection):
    """A connection that cannot write, distinguished by its class from those that can hold the write lock."""


def open_writer(
    location: Location, *, durable: bool, create: bool = True, deadline: float | None = None
) -> sqlite3.Connection:
    """Open the connection that writes. Creates the file, readable for its owner only, and puts it into WAL mode.

    Waits for other connections to the file until `deadline` on the monotonic clock.
    """
    if location.path is not None and create:
        _create(location.path)
    connection = _connect(location, mode="rw")
    try:
        with translated():
            if not location.memory:
                _into_wal(connection, location, time.monotonic() + PATIENCE if deadline is None else deadline)
            settle(connection, durable=durable)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(location: Location) -> sqlite3.Connection:
    """Open a connection that cannot write and never blocks a writer."""
    connection = _connect(location, mode="rw", factory=ReadingConnection)
    with translated():
        settle(connection, durable=True)
        connection.execute("pragma query_only=on")
        connection.execute(f"pragma busy_timeout={int(PATIENCE * 1000)}")
    return connection


def patiently(action: Callable[[], T], deadline: float) -> T:
    """Repeat `action` while another connection blocks it, until `deadline` on the monotonic clock.

    SQLite's own busy handler sleeps up to 100 ms at a time and is unfair among many processes.
    """
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
        time.sleep(random.uniform(0.0002, 0.002))


def _connect(
    location: Location, *, mode: str, factory: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    # mode=rw: a connection after the first must not recreate a removed file as an empty one.
    uri = location.uri if location.memory else f"{location.uri}?mode={mode}"
    with translated():
        return sqlite3.connect(
            uri,
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=factory,
        )


def _create(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
    except FileExistsError:
        return  # never opened except through SQLite: closing would drop the process's locks on it
    except OSError:
        return  # SQLite reports what is wrong
    os.close(descriptor)


def _into_wal(connection: sqlite3.Connection, location: Location, deadline: float) -> None:
    try:
        patiently(lambda: _allow_small_vacuums(connection), deadline)
        # Needs the file exclusively for a moment, and does not wait for it by itself.
        mode = patiently(lambda: connection.execute("pragma journal_mode=wal").fetchone()[0], deadline)
    except sqlite3.DatabaseError as error:
        if code(error) == sqlite3.SQLITE_NOTADB:
            raise ConfigError(f"{location.path} is not a SQLite database; choose another path") from error
        raise
    if mode != "wal":
        raise ConfigError(f"{location.path} cannot use a write-ahead log (journal mode {mode}); use a local disk")


def _allow_small_vacuums(connection: sqlite3.Connection) -> None:
    # Only useful before the first table: pruned space can then be given back in small steps. Its cost was too small to
    # measure. On a file that has tables the pragma would only take the write lock, and fail without it.
    if connection.execute("pragma page_count").fetchall()[0][0] == 0:
        connection.execute("pragma auto_vacuum=incremental")


def settle(connection: sqlite3.Connection, *, durable: bool) -> None:
    """Apply the settings of every connection to the file, borrowed ones included."""
    settings = {
        "synchronous": "full" if durable else "normal",
        "foreign_keys": "on",
        "trusted_schema": "off",
        "cell_size_check": "on",
        # Checkpoints run in one place, under the write lock. See checkpoint.py.
        "wal_autocheckpoint": "0",
        "journal_size_limit": str(64 * 1024 * 1024),
    }
    for name, value in settings.items():
        connection.execute(f"pragma {name}={value}").fetchall()
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
