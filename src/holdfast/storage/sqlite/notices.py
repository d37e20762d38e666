"""Notifies other processes of topics, through a small file beside the database: `jobs.db-notify`.

Each topic has a slot in the file. A notification writes a new number there, after the commit; a listener compares
with what it read last. So nothing queries the database, and a commit without topics wakes no process. The file
holds nothing else: it may be deleted at any time, and a lost notification costs one poll interval.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Final
from zlib import crc32

from ..forking import renew_after_fork

BORROWED: Final = 0
"""The slot for transactions that their callers commit."""
_SLOTS: Final = 128
_WIDTH: Final = 8
_SIZE: Final = _SLOTS * _WIDTH
_FLAGS: Final = os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
# Seconds after which a notification checks whether the file was deleted.
_CHECK: Final = 1.0

_log = logging.getLogger("holdfast.storage")


@lru_cache(1_000)
def slot_of(topic: str) -> int:
    """Return the slot of a topic. Two may share one: then a notification of either wakes the listeners of both."""
    return 1 + crc32(topic.encode()) % (_SLOTS - 1)


class Notices:
    """The file, opened on first use. A database in memory has none."""

    def __init__(self, database: str | None) -> None:
        self._database = database
        self.path: Final = database and f"{database}-notify"
        self._complained = False
        self._close: Callable[[], object] = _nothing
        self._descriptor: int | None = None
        self._seen = bytearray(_SIZE)
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Start with numbers of its own: those of the parent must not be repeated."""
        self._lock = threading.RLock()
        self.close()

    def open(self) -> bool:
        """Open the file, if need be, with its present content as known; False where there is none."""
        with self._lock:
            return self._opened() is not None

    def notify(self, topics: Collection[str]) -> None:
        """Notify other processes of topics. For this process, the file then counts as unchanged."""
        self._write(map(slot_of, topics))

    def announce_borrowed(self) -> None:
        """Notify other processes of an open transaction whose commit notifies no one."""
        self._write((BORROWED,))

    def changed(self) -> set[int] | None:
        """Return the slots that other processes have changed since the last call; None where there is no file."""
        with self._lock:
            if (descriptor := self._opened()) is None:
                return None
            before, now = self._seen, _read(descriptor)
            if before == now:
                return set()
            self._seen = now
            pairs = list(zip(memoryview(before).cast("Q"), memoryview(now).cast("Q"), strict=True))
        return {slot for slot, (old, new) in enumerate(pairs) if old != new}

    def reopen_if_deleted(self) -> None:
        """Close a file that was deleted; the next call creates another."""
        with self._lock:
            if self._descriptor is not None and os.fstat(self._descriptor).st_nlink == 0:
                self.close()

    def close(self) -> None:
        """Close the file until it is used again."""
        with self._lock:
            self._close()
            self._close = _nothing
            self._descriptor, self._seen = None, bytearray(_SIZE)
            # Two processes that start at random numbers do not reach the same number.
            self._numbers = itertools.count(int.from_bytes(os.urandom(7), "little"))
            self._check_at = time.monotonic() + _CHECK

    def _write(self, slots: Iterable[int]) -> None:
        with self._lock:
            if (now := time.monotonic()) > self._check_at:
                self._check_at = now + _CHECK
                self.reopen_if_deleted()
            if (descriptor := self._descriptor or self._opened()) is None:
                return
            try:
                for slot in slots:
                    number, place = next(self._numbers).to_bytes(_WIDTH, "little"), slot * _WIDTH
                    _write_at(descriptor, number, place)
                    self._seen[place : place + _WIDTH] = number
            except OSError as error:
                self._complain(error)

    def _opened(self) -> int | None:
        if self._descriptor is None and self._database is not None:
            try:
                self._descriptor = descriptor = _open(f"{self._database}-notify", self._database)
                self._close = weakref.finalize(self, os.close, descriptor)
                self._close.atexit = False
                self._seen = _read(descriptor)
            except OSError as error:
                self._complain(error)
        return self._descriptor

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            _log.warning("%s cannot be used (%s); other processes find what is new by polling", self.path, error)


def _open(path: str, database: str) -> int:
    """Open the file. A new one has the permissions of the database."""
    with suppress(FileNotFoundError):
        return os.open(path, _FLAGS)
    like = os.stat(database)
    try:
        descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, _FLAGS)
    with suppress(OSError, AttributeError):  # on Windows its folder decides
        os.fchown(descriptor, like.st_uid, like.st_gid)
    with suppress(OSError, AttributeError):
        os.fchmod(descriptor, like.st_mode & 0o777)
    return descriptor


def _read(descriptor: int) -> bytearray:
    return bytearray(_read_at(descriptor, _SIZE, 0).ljust(_SIZE, b"\0"))


def _move_and_write(descriptor: int, data: bytes, place: int) -> int:
    os.lseek(descriptor, place, os.SEEK_SET)
    return os.write(descriptor, data)


def _move_and_read(descriptor: int, size: int, place: int) -> bytes:
    os.lseek(descriptor, place, os.SEEK_SET)
    return os.read(descriptor, size)


# Windows has no such calls; there the lock keeps the two together.
_write_at: Final[Callable[[int, bytes, int], int]] = getattr(os, "pwrite", _move_and_write)
_read_at: Final[Callable[[int, int, int], bytes]] = getattr(os, "pread", _move_and_read)


def _nothing() -> None:
    """Do nothing, for a file that is not open."""
