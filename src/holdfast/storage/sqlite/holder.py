"""Find out whether a write waits for a lock that its own caller holds.

Called in the calling thread or task, once the lock has been busy for a moment. The answer is yes only where it is
certain: this process holds the lock, and every transaction in it that could write belongs to the caller.
"""

from __future__ import annotations

import gc
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from ..foreign import sqlite_connection_of
from .connect import ReadingConnection

# SQLite's lock bytes: the first lock byte of the shared memory is the writer's; without a write-ahead log it locks
# ranges of the database file itself.
_WAL_WRITER: Final = range(120, 121)
_ROLLBACK_LOCKS: Final = range(0x40000000, 0x40000200)


def caller_holds_lock(path: str, *, blocks: bool, passed: sqlite3.Connection | None = None) -> bool:
    """Return whether the caller holds the lock. `blocks` says that the whole thread waits, not only a task of it.

    `passed` is the connection that waits, if it is the caller's own.
    """
    if not _is_locked_here(path):
        return False
    found = _open_transactions()
    # A connection that is opened or closed meanwhile may be the holder: then nothing is certain.
    if not found or not _is_locked_here(path) or _open_transactions() != found:
        return False
    known = [id(connection) for connection in _connections_of_caller()]
    others = [one for one in found if one is not passed]
    return bool(others) and all(id(one) in known or (blocks and _is_of_this_thread(one)) for one in others)


def _open_transactions() -> list[sqlite3.Connection]:
    return [connection for connection in gc.get_objects() if _has_transaction(connection)]


def _is_locked_here(path: str) -> bool:
    """Return whether this process holds the lock. False where the system does not say."""
    try:
        inode, place = os.stat(f"{path}-shm").st_ino, _WAL_WRITER
    except FileNotFoundError:
        inode, place = os.stat(path).st_ino, _ROLLBACK_LOCKS
    try:
        with open("/proc/locks", encoding="ascii") as lines:
            return any(_is_ours(line.split(), inode, place) for line in lines)
    except OSError:
        return False  # not Linux


def _is_ours(fields: list[str], inode: int, place: range) -> bool:
    """Parse one line of /proc/locks, such as `1: POSIX ADVISORY WRITE 4711 fe:00:2162275 120 120`."""
    if len(fields) != 8 or fields[4] != str(os.getpid()) or not fields[5].endswith(f":{inode}"):
        return False
    return int(fields[6]) in place and (place is _ROLLBACK_LOCKS or fields[3] == "WRITE")


def _has_transaction(thing: Any) -> bool:
    # By type: isinstance would query what a proxy wraps, which may fail.
    if not issubclass(type(thing), sqlite3.Connection) or type(thing) is ReadingConnection:
        return False
    try:
        return bool(thing.in_transaction)
    except sqlite3.ProgrammingError:
        return False  # closed


def _is_of_this_thread(connection: sqlite3.Connection) -> bool:
    """Return whether no other thread may use it. The driver shows this only by refusing one."""
    refused: list[bool] = []
    other = threading.Thread(target=lambda: refused.append(not _is_usable(connection)))
    other.start()
    other.join()
    return _is_usable(connection) and refused == [True]


def _is_usable(connection: sqlite3.Connection) -> bool:
    try:
        sqlite3.Cursor(connection).close()
    except sqlite3.ProgrammingError:
        return False
    return True


def _connections_of_caller() -> Iterator[object]:
    """Return SQLite connections in the variables of the calling functions, and Django's connections of this thread."""
    for value in _variables(sys._getframe(1)):
        if (connection := sqlite_connection_of(value)) is not None:
            yield connection
    if (django := sys.modules.get("django.db")) is not None:
        for wrapper in django.connections.all(initialized_only=True):
            yield wrapper.connection


def _variables(frame: FrameType | None) -> Iterator[object]:
    # A task's callers end where the event loop begins.
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("asyncio."):
        yield from frame.f_locals.values()
        yield from getattr(frame.f_locals.get("self"), "__dict__", {}).values()
        frame = frame.f_back
