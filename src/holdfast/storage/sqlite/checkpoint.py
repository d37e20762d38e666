"""Moves the write-ahead log into the database, while no connection can write.

Before 3.51.3 a checkpoint that races a writer's restart of the log can lose a commit. So no connection checkpoints by
itself (wal_autocheckpoint=0), and ours runs while another of our connections holds the write lock. It is kept small:
the lock is held about 14 ms for 1,000 frames.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from ...errors import StorageUnavailable
from ..daemons import start_daemon
from .connect import patiently
from .failures import is_busy

FRAMES: Final = 1_000
"""About this many frames are moved at once."""
QUIET: Final = 1.0
"""Seconds without a commit after which even a small log is moved."""
_PATIENCE: Final = 1.0
_LARGE: Final = 64 * 1024 * 1024

_log = logging.getLogger("holdfast.storage")


class Checkpointer:
    """Its thread starts with the first commit, and sleeps without a timer while nothing is committed."""

    def __init__(
        self,
        writer: sqlite3.Connection,
        mover: sqlite3.Connection,
        exclusive: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._writer = writer
        self._mover = mover
        self._exclusive = exclusive
        self._page_size: int = writer.execute("pragma page_size").fetchall()[0][0]
        self._changes = 0
        # Row changes that make about FRAMES frames; corrected after every checkpoint.
        self._enough = FRAMES // 4
        self._warned = False
        self._dirty = threading.Event()
        self._full = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def note(self, changes: int) -> None:
        """Record that a commit changed this many rows. Called by the leader, so by one thread at a time."""
        self._changes += changes
        if self._changes >= self._enough:
            self._full.set()
        if not self._dirty.is_set():
            self._dirty.set()
            if self._thread is None:
                self._begin()

    def run_once(self) -> tuple[int, int] | None:
        """Return the frames in the log and the frames moved; None if another process kept the write lock."""
        with self._exclusive():
            if self._closed:
                return None
            changes, self._changes = self._changes, 0
            self._full.clear()
            try:
                patiently(lambda: self._writer.execute("begin immediate"), time.monotonic() + _PATIENCE)
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                return None
            try:
                _, frames, moved = self._mover.execute("pragma wal_checkpoint(passive)").fetchone()
            finally:
                self._writer.execute("rollback")
        self._learn(changes, frames, moved)
        return frames, moved

    def close(self) -> None:
        """Stop the thread. The connections belong to the caller."""
        self.retire()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def retire(self) -> None:
        """Never use the connections again, from when the caller next lets others in."""
        self._closed = True
        self._full.set()
        self._dirty.set()

    def run_when_due(self) -> bool:
        """Wait, after the first commit, for enough frames or for quiet, and checkpoint. False when closed."""
        self._dirty.clear()
        while not self._full.wait(QUIET) and self._dirty.is_set():
            self._dirty.clear()
        if self._closed:
            return False
        try:
            self.run_once()
        except Exception as error:
            _log.warning("a checkpoint failed (%s); the log grows until one succeeds, nothing is lost", error)
        return True

    def _learn(self, changes: int, frames: int, moved: int) -> None:
        if changes > 0 and frames > 0:
            self._enough = max(50, min(5_000, FRAMES * changes // frames))
        large = moved < frames and frames * self._page_size > _LARGE
        if large and not self._warned:
            text = "the write-ahead log has %d frames, %d of them moved: a reader keeps an old snapshot open; end it"
            _log.warning(text, frames, moved)
        self._warned = large

    def _begin(self) -> None:
        try:
            self._thread = start_daemon("holdfast-checkpoint", _main, weakref.ref(self), self._dirty)
        except StorageUnavailable as error:
            # The commit that triggered this is done, whatever happens to its log; the next one tries again.
            self._dirty.clear()
            _log.warning("no checkpoints for now (%s); the log grows, nothing is lost", error)
        else:
            weakref.finalize(self, self._dirty.set).atexit = False


def has_wal_reset_bug(version: tuple[int, int, int]) -> bool:
    """Return whether a checkpoint that races a writer can lose a commit. Fixed in SQLite 3.51.3, 3.50.7 and 3.44.6."""
    if (3, 44, 6) <= version < (3, 45, 0) or (3, 50, 7) <= version < (3, 51, 0):
        return False
    return (3, 7, 0) <= version < (3, 51, 3)


def _main(ref: weakref.ref[Checkpointer], dirty: threading.Event) -> None:
    while dirty.wait():
        checkpointer = ref()
        if checkpointer is None or not checkpointer.run_when_due():
            return
        del checkpointer
