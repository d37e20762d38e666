"""Disk helpers: sync a folder, measure free space and the size of the log."""

from __future__ import annotations

import os
import shutil


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Sync a folder: a new or changed file name is safe only after that."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free_space(folder: str | os.PathLike[str]) -> int | None:
    """Return the free bytes of a folder's file system; None where this process cannot tell."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def log_bytes(file: str) -> int:
    """Return the size of a SQLite file's write-ahead log."""
    try:
        return os.stat(f"{file}-wal").st_size
    except OSError:
        return 0
