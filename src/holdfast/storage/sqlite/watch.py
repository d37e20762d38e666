"""Notices topics that other processes notify, and, where needed, commits of other connections.

Other processes write their topics into a file (see notices.py). Where the system has inotify, it reports each write;
elsewhere the file is read with growing pauses. A transaction that its caller commits is only announced there: until it
has ended, each write to the log starts a short series of checks (the event comes before the commit is visible, by the
time of an fsync). The same applies to all commits where the file cannot be used. The thread sleeps without a timer
while no listener waits.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ...errors import StorageUnavailable
from ..daemons import start_daemon
from ..forking import renew_after_fork
from .inotify import FileEvents
from .notices import Notices

# Seconds. A single check right after the event found none of 20 commits; a slow disk takes tens of milliseconds.
LADDER: Final = (0.0001, 0.0002, 0.0002, 0.0003, 0.001, 0.003, 0.003, 0.01, 0.03, 0.05)
_POLL_FIRST: Final = 0.001
_POLL_LAST: Final = 0.03
# Our own commits cause events too. The leader checks for others by itself at each commit, so the watch may pause.
_REST: Final = 0.002
# Seconds for which an announced transaction is waited for, at most.
_BORROWED_FOR: Final = 60.0

_log = logging.getLogger("holdfast.storage")


class Watch:
    """Calls `look`, which wakes listeners and returns True if others have notified or, where it matters, committed.

    `movements` counts the beginnings and ends of our own transactions.
    """

    def __init__(
        self, look: Callable[[], bool], movements: Callable[[], int], notices: Notices, log_path: str | None
    ) -> None:
        self._look = look
        self._notices = notices
        self._strangers_until = 0.0
        self.announcements = 0
        """Grows with each announced transaction."""
        self._checked = 0
        """The announcements at the last check for commits."""
        self._movements = movements
        self._seen = 0
        self._log_path = log_path
        self._armed = log_path is not None
        self._events: FileEvents | None = None
        self.closed = False
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self._lock = threading.RLock()
        self._waiting = 0
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        if self._events is not None:
            self._events.close()  # its queue is shared with the parent: reading would steal events
            self._events = None

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Keep the watch active: a listener waits inside this block."""
        with self._lock:
            self._waiting += 1
            self._call()
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    @property
    def expects_strangers(self) -> bool:
        """Return whether there may be commits without topics."""
        return time.monotonic() < self._strangers_until or not self._notices.open()

    def expect_strangers(self) -> None:
        """Expect commits without topics for a while. (A database in memory has none until a connection is borrowed.)"""
        self.announcements += 1
        self._strangers_until = time.monotonic() + _BORROWED_FOR
        if not self._armed:
            with self._lock:
                self._armed = True
                self._call()

    def note_check(self, announcements: int, *, wrote: bool) -> None:
        """Stop expecting an announced transaction once it has ended. `announcements` were known before the check.

        It keeps the write lock from its announcement to its end. So once a check has come after the announcement, the
        next commit that is found is its own, or follows its rollback.
        """
        if announcements != self.announcements:
            return
        if wrote and self._checked == announcements:
            self._strangers_until = 0.0
        self._checked = announcements

    def close(self) -> None:
        # Under the lock: a listener that starts to wait at this moment has started the thread, or starts none.
        with self._lock:
            self.closed = True
            thread = self._thread
            if self._events is not None:
                self._events.stop()
        self._wanted.set()
        if thread is not None:
            thread.join()
        if self._events is not None:
            self._events.close()
            self._events = None

    def watch(self) -> None:
        """Watch from the first listener that waits until none does."""
        self._look()  # opens the database, and makes the files
        if (events := self._listen()) is not None:
            self._look()  # for commits from before inotify was set up
            self._follow(events)
            return
        pause = _POLL_FIRST
        while self._still_wanted():
            time.sleep(pause)
            pause = _POLL_FIRST if self._look() else min(pause * 1.5, _POLL_LAST)

    def _follow(self, events: FileEvents) -> None:
        """Check after each write, until no listener waits or the file was replaced."""
        while self._still_wanted():
            if not self.expects_strangers:
                events.drop_added()
                if events.wait() and not self._look():
                    time.sleep(_REST)
            elif self._log_path is not None and events.add(self._log_path):
                self._look()  # records earlier commits; the announced one may come at any moment
                self._check_repeatedly(events)
            elif events.wait(_BORROWED_FOR):
                self._check_repeatedly(events)
            if events.is_of_another_file:
                self._watch_next_file(events)
                return

    def _watch_next_file(self, events: FileEvents) -> None:
        """Watch the next file: this one was deleted (the log, say, when the last connection closed before a fork)."""
        with self._lock:
            if not self.closed:
                events.close()
                self._events = None
        self._notices.reopen_if_deleted()
        # Opens the database again, which creates the log; the next call of `watch` subscribes before it checks.
        self._look()

    def _check_repeatedly(self, events: FileEvents) -> None:
        """Check soon after a write to a file, then less and less often. A new write starts over.

        Our own commits write to the log as well, and another process's may be in progress beside them: its event came
        with theirs, and no other comes when it is visible. So our own slow the checks down and never end them.
        """
        step = 0
        while step < len(LADDER) and self._still_wanted():
            wrote = _pause(events, LADDER[step])
            if self._is_ours():
                time.sleep(_REST)
            if self.closed or self._look():
                return
            step = 0 if wrote else step + 1

    def _is_ours(self) -> bool:
        """Return whether this process has written since the last check, or does so now."""
        before, self._seen = self._seen, self._movements()
        return self._seen != before or self._seen % 2 == 1

    def _listen(self) -> FileEvents | None:
        path = self._notices.path if self._notices.open() else self._log_path
        if self._events is None and path is not None:
            self._events = FileEvents.on(path)
        return self._events

    def _still_wanted(self) -> bool:
        with self._lock:
            if not self._waiting and not self.closed:
                self._wanted.clear()
            return self._waiting > 0 and not self.closed

    def _call(self) -> None:
        if self._armed and self._waiting and not self.closed and not self._wanted.is_set():
            self._wanted.set()
            if self._thread is None:
                self._begin()

    def _begin(self) -> None:
        try:
            self._thread = start_daemon("holdfast-watch", _main, weakref.ref(self), self._wanted)
        except StorageUnavailable as error:
            self._wanted.clear()
            _log.warning("other processes' commits are found by polling alone for now: %s", error)
        else:
            weakref.finalize(self, self._wanted.set).atexit = False


def _pause(events: FileEvents, seconds: float) -> bool:
    """Return True if the log was written meanwhile. The first pauses are too short to check."""
    if seconds >= 0.001:
        return events.wait(seconds)
    time.sleep(seconds)
    return False


def _main(ref: weakref.ref[Watch], wanted: threading.Event) -> None:
    complained = False
    while wanted.wait():
        watch = ref()
        if watch is None or watch.closed:
            return
        try:
            watch.watch()
        except Exception:
            if not complained:
                _log.exception("watching for other processes' commits fails for now; polling still finds their work")
            complained = True
            time.sleep(1)
        del watch
