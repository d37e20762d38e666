"""Description of a SQLite store."""

from __future__ import annotations

import os
import sqlite3

from ..port import Value
from .checkpoint import has_wal_reset_bug
from .location import Location

_VACUUM = {0: "none", 1: "full", 2: "incremental"}


def describe(connection: sqlite3.Connection, location: Location, *, durable: bool) -> dict[str, Value]:
    """Return versions, settings and sizes, read through the writer."""
    pages, size = _pragma(connection, "page_count"), _pragma(connection, "page_size")
    return {
        "backend": "sqlite",
        "sqlite_version": sqlite3.sqlite_version,
        "wal_reset_bug": _verdict(sqlite3.sqlite_version_info),
        "path": location.path or location.uri,
        "journal_mode": _pragma(connection, "journal_mode"),
        # The setting for durable commits; the writer's own setting changes with what it commits.
        "synchronous": "full" if durable else "normal",
        "page_size": size,
        "page_count": pages,
        "free_pages": _pragma(connection, "freelist_count"),
        "auto_vacuum": _VACUUM.get(int(_pragma(connection, "auto_vacuum") or 0), "unknown"),
        "bytes": int(pages or 0) * int(size or 0),
        "wal_bytes": _size(f"{location.path}-wal") if location.path else 0,
    }


def _verdict(version: tuple[int, ...]) -> str:
    if has_wal_reset_bug((version[0], version[1], version[2])):
        return (
            "present in this SQLite, avoided by guarded checkpoints; upgrade to 3.51.3, 3.50.7 or 3.44.6,"
            " and set wal_autocheckpoint=0 on connections of your own to this file"
        )
    return "fixed"


def _pragma(connection: sqlite3.Connection, name: str) -> Value:
    value: Value = connection.execute(f"pragma {name}").fetchall()[0][0]
    return value


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
