"""A reserve file beside the database that is deleted when the disk is full.

Even a deletion needs space, so a full disk would block the very cleanup that makes room. Operations whose caller set a
patience of its own (the worker's: finish, renew, prune) may use the space it frees; all others are refused until there
is room for a new one.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Final

SIZE: Final = 4 * 1024 * 1024
_SMALLEST: Final = 64 * 1024
# A disk with little free space gives an eighth of it.
_SHARE: Final = 8
_RETRY: Final = 1.0

_log = logging.getLogger("holdfast.storage")


class Ballast:
    """Not safe by itself: the group commit lets one thread in at a time. The file is shared by all processes."""

    def __init__(self, database: str) -> None:
        self._path = f"{database}-ballast"
        self._size = _size_of(self._path) or min(SIZE, _free(database) // _SHARE)
        self._look_again = 0.0
        self.down = False
        self._lay()

    def release(self) -> None:
        """Delete the file, once; unless there is free space, and only one huge write failed."""
        if self._size < _SMALLEST or self._has_room():
            return
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass  # another process did
        else:
            _log.error("the disk of %s is full: new work is refused, running jobs may still finish", self._path)
        self.down = True

    def restore(self) -> bool:
        """Return whether the file is in place, restoring it if possible. Checks once a second at most."""
        if not self.down:
            return True
        if time.monotonic() < self._look_again:
            return False
        self._look_again = time.monotonic() + _RETRY
        if not self._has_room() or not self._lay():
            return False
        self.down = False
        _log.warning("there is space again beside %s: new work is accepted", self._path)
        return True

    def _has_room(self) -> bool:
        # Twice its size, lest the next write deletes it again.
        return _free(os.path.dirname(self._path)) >= 2 * self._size

    def _lay(self) -> bool:
        if self._size < _SMALLEST:
            return True  # the disk is too small to reserve any of it
        try:
            descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return True
        except OSError:
            return False
        try:
            _allocate(descriptor, self._size)
        except OSError:
            os.unlink(self._path)
            return False
        finally:
            os.close(descriptor)
        return True


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.write(descriptor, bytes(size))


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _free(path: str) -> int:
    try:
        status = os.statvfs(path)
    except (OSError, AttributeError):
        return 0
    return status.f_bavail * status.f_frsize
