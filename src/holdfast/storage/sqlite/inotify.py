"""Linux tells when a file was written. The standard library has no binding, so the C library is called."""

from __future__ import annotations

import ctypes
import os
import select
import sys
from functools import cache
from typing import Any, Final

_IN_MODIFY: Final = 0x2
_BUFFER: Final = 4096


class FileEvents:
    """Writes to one file, from this process or another. For one reading thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._stop_reader, self._stop_writer = os.pipe()
        self._open: tuple[int, ...] = (descriptor, self._stop_reader, self._stop_writer)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._poll.register(self._stop_reader, select.POLLIN)

    @classmethod
    def on(cls, path: str) -> FileEvents | None:
        """None where the system has no inotify, no watch is left, or the file is not there."""
        libc = _libc()
        if libc is None:
            return None
        descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            return None
        if libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) < 0:
            os.close(descriptor)
            return None
        return cls(descriptor)

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the file was written, and take all events at once; False when stopped, or the time is over."""
        ready = {descriptor for descriptor, _ in self._poll.poll(None if timeout is None else timeout * 1000)}
        if self._descriptor not in ready or self._stop_reader in ready:
            return False
        try:
            while len(os.read(self._descriptor, _BUFFER)) > _BUFFER // 2:
                pass
        except BlockingIOError:
            pass
        return True

    def stop(self) -> None:
        """End `wait` from another thread."""
        os.write(self._stop_writer, b"x")

    def close(self) -> None:
        """Only when no thread waits."""
        descriptors, self._open = self._open, ()
        for descriptor in descriptors:
            os.close(descriptor)


@cache
def _libc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None
    return libc if hasattr(libc, "inotify_init1") and hasattr(libc, "inotify_add_watch") else None
