"""What the disk itself must be told, and what it tells."""

from __future__ import annotations

import os
import shutil


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """A new name, or another one, is safe only once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free_space(folder: str | os.PathLike[str]) -> int | None:
    """Bytes that are free where a folder is; None where this process cannot tell."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def log_bytes(file: str) -> int:
    """The size of a SQLite file's write-ahead log."""
    try:
        return os.stat(f"{file}-wal").st_size
    except OSError:
        return 0
