"""File change events on Linux. The standard library has no binding for inotify, so the C library is called."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
from functools import cache
from typing import Any, Final

_WRITTEN: Final = 0x2
# An unlink is an attribute change.
_CHANGED: Final = 0x4
_DELETED: Final = 0x400
_EVENTS: Final = _WRITTEN | _CHANGED | _DELETED
_EVENT: Final = struct.Struct("iIII")
_BUFFER: Final = 256 * _EVENT.size


class FileEvents:
    """Writes to a file, and to another for a while, by this process or another. For one reading thread."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._other: int | None = None
        self._file = _identity(path)
        self._deleted = False
        self._descriptor = descriptor
        self._stop_reader, self._stop_writer = os.pipe()
        self._open: tuple[int, ...] = (descriptor, self._stop_reader, self._stop_writer)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._poll.register(self._stop_reader, select.POLLIN)

    @classmethod
    def on(cls, path: str) -> FileEvents | None:
        """Watch a file; None where the system has no inotify, no watch is left, or the file does not exist."""
        libc = _libc()
        if libc is None:
            return None
        descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            return None
        if libc.inotify_add_watch(descriptor, os.fsencode(path), _EVENTS) < 0:
            os.close(descriptor)
            return None
        return cls(path, descriptor)

    def add(self, path: str) -> bool:
        """Watch one more file; False if it is watched already."""
        if self._other is not None:
            return False
        self._other = _libc().inotify_add_watch(self._descriptor, os.fsencode(path), _EVENTS)
        return True

    def drop_added(self) -> None:
        """Watch only the first file again."""
        if self._other is not None:
            _libc().inotify_rm_watch(self._descriptor, self._other)
            self._other = None

    @property
    def is_of_another_file(self) -> bool:
        """Return whether the file was deleted or replaced: then there are no events for the file that exists now."""
        # Neither sign alone is enough: a new file may get the inode of a deleted one, and one that some process still
        # has open is unlinked and not deleted.
        return self._deleted or self._file is None or _identity(self._path) != self._file

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the file was written, and take all events at once; False when stopped, or after the timeout."""
        ready = {descriptor for descriptor, _ in self._poll.poll(None if timeout is None else timeout * 1000)}
        if self._descriptor not in ready or self._stop_reader in ready:
            return False
        while not self._take():
            pass
        return True

    def _take(self) -> bool:
        """Read the pending events; True if that was all."""
        try:
            found = os.read(self._descriptor, _BUFFER)
        except BlockingIOError:
            return True
        self._deleted = self._deleted or any(mask & _DELETED for _, mask, _, _ in _EVENT.iter_unpack(found))
        return len(found) <= _BUFFER // 2

    def stop(self) -> None:
        """End `wait` from another thread."""
        os.write(self._stop_writer, b"x")

    def close(self) -> None:
        """Close. Only when no thread waits."""
        descriptors, self._open = self._open, ()
        for descriptor in descriptors:
            os.close(descriptor)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@cache
def _libc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None
    return libc if hasattr(libc, "inotify_init1") and hasattr(libc, "inotify_add_watch") else None
