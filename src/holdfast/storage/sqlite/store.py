"""A SQLite database, opened: one writer behind a group commit, separate readers, wake-ups, checkpoints.

The file is opened on first use, and again after a fork. A fresh or older schema is brought up to date then; a newer
one may be read but not written.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final, TypeVar

from msgspec import structs

from ...clock import SYSTEM_CLOCK, Clock
from ...errors import StorageBusy, StorageError, StorageUnavailable
from .. import migrate
from ..blobs import Blobs, TableBlobs
from ..foreign import Host, arun_within, run_within
from ..forking import leave_before_fork, renew_after_fork
from ..group_commit import Combiner
from ..outage import Outage
from ..port import ListOp, Op, Value
from ..timing import Timings, atimed, timed
from ..waiter import Waiter, own_copy
from . import schema
from .borrowed import BorrowedConnection, Connection, begin_soon
from .connect import PATIENCE
from .describe import describe
from .failures import is_busy, translated
from .files import files_of
from .holder import caller_holds_lock
from .location import inspect, locate
from .notices import BORROWED, Notices
from .session import Session, Settings
from .wakeups import SqliteWakeups
from .watch import Watch
from .work import SUSPICIOUS, Contended, Work, give_up, held_too_long, self_locked, time_left

T = TypeVar("T")
Item = TypeVar("Item")


class SqliteStore:
    """One database file, or one in memory.

    `durable` survives a loss of power after every commit; without it the last commits before the loss may be missing.
    `room` bounds the writes that may wait in this process.
    """

    backend = "sqlite"

    def __init__(
        self,
        where: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        durable: bool = True,
        auto_migrate: bool = True,
        allow_unsafe_fs: bool = False,
        room: int = 10_000,
    ) -> None:
        location = locate(where)
        self.in_memory: Final = location.memory
        self._settings = Settings(
            location=location,
            clock=clock or SYSTEM_CLOCK,
            durable=durable,
            auto_migrate=auto_migrate,
            allow_unsafe_fs=allow_unsafe_fs,
        )
        path = self._settings.location.path
        self._current: Session | None = None
        self._topics: set[str] = set()
        self._changes = 0
        self._had_file = False
        self._lost_log: str | None = None
        self._inspected = False
        self._try_again_at = 0.0
        self._while_away = ExitStack()
        self._inherited = False
        self._passed_at_fork = False
        self._opening = threading.Lock()
        self._closed = False
        self.outage: Final = Outage()
        self.timings: Final = Timings()
        self._borrowed = BorrowedConnection(self._settings.location, durable=durable)
        self._combiner: Combiner[Work] = Combiner(self._commit, room=room, on_results=self._notify_listeners)
        self._notices = Notices(path)
        self._watch = Watch(self._look, self._movements, self._notices, path and f"{path}-wal")
        self._wakeups = SqliteWakeups(self._watch)
        self._blobs: Blobs = files_of(self._settings.location) or TableBlobs()
        self._host = Host(
            "sqlite",
            self._settings.clock,
            self._announce,
            run_on_sqlite=self._run_passed,
            begin_on_sqlite=self._begin_passed,
        )
        renew_after_fork(self)
        if path is not None:
            leave_before_fork(self)

    @property
    def wakeups(self) -> SqliteWakeups:
        return self._wakeups

    @property
    def blobs(self) -> Blobs:
        return self._blobs

    @property
    def writes_waiting(self) -> int:
        return self._combiner.waiting

    def pool_peak(self) -> None:
        """Return None: there is no pool, one connection writes."""

    @timed
    def write(self, op: Op[T]) -> T:
        answer: T = self._run(Work(op))
        return answer

    @atimed
    async def awrite(self, op: Op[T]) -> T:
        answer: T = await self._arun(Work(op))
        return answer

    @timed
    def write_list(self, op: ListOp[Item, T]) -> list[T]:
        answers: list[T] = self._run(Work(op), len(op.items))
        return answers

    @atimed
    async def awrite_list(self, op: ListOp[Item, T]) -> list[T]:
        answers: list[T] = await self._arun(Work(op), len(op.items))
        return answers

    @timed
    def read(self, op: Op[T]) -> T:
        if readers := self._session().readers:
            try:
                return readers.read(op)
            except StorageError as error:
                self._check_log(error)
                raise
        answer: T = self._run(Work(op, reads=True))
        return answer

    @atimed
    async def aread(self, op: Op[T]) -> T:
        if readers := (self._current or await self._aopen()).readers:
            try:
                return await readers.aread(op)
            except StorageError as error:
                self._check_log(error)
                raise
        answer: T = await self._arun(Work(op, reads=True))
        return answer

    def within(self, connection: object, op: Op[T]) -> T:
        return self._within(op, connection)

    @timed
    def _within(self, op: Op[T], connection: object) -> T:
        return run_within(self._host, connection, op)

    async def awithin(self, connection: object, op: Op[T]) -> T:
        return await self._awithin(op, connection)

    @atimed
    async def _awithin(self, op: Op[T], connection: object) -> T:
        return await arun_within(self._host, connection, op)

    def connect(self) -> Connection:
        """Return a connection of the caller's own, for this thread, with the settings that this file needs."""
        self._session()
        self._watch.expect_strangers()
        return self._borrowed.make()

    def migrate(self) -> list[str]:
        with self._combiner.exclusive():
            return self._session().upgrade(self._settings.clock.now())

    def drop(self) -> None:
        with self._combiner.exclusive():
            self._session().drop()
            self._blobs.clear()

    def describe(self) -> dict[str, Value]:
        with self._combiner.exclusive(), translated():
            return describe(self._session().writer.connection, self._settings.location, durable=self._settings.durable)

    def close(self) -> None:
        self._closed = True
        self._watch.close()
        self._combiner.close()
        self._notices.close()
        with self._opening:
            session, self._current = self._current, None
        if session is not None:
            session.stop()
            session.close()

    def before_fork(self) -> None:
        """Close the file. SQLite keeps its locks on a file in memory: a child that inherits these records believes that
        it holds what it does not hold, or waits for ever for a lock that no process holds."""
        self._passed_at_fork = self._borrowed.any_open()
        try:
            self._while_away.enter_context(self._combiner.exclusive())
        except RuntimeError:
            return  # forked in the middle of this thread's own commit
        self._while_away.enter_context(self._opening)
        if self._current is not None and self._current.leave(self._while_away):
            self._current = None

    def after_fork_in_parent(self) -> None:
        self._while_away.close()
        # Commits of other processes since then are not known to be new.
        self._wakeups.notify_all()

    def renew_after_fork(self) -> None:
        """Drop what the parent opened: it is neither used nor closed here."""
        self._opening = threading.Lock()
        self._while_away = ExitStack()
        self._borrowed = BorrowedConnection(self._settings.location, durable=self._settings.durable)
        session, self._current = self._current, None
        held = self._passed_at_fork or (session is not None and self._settings.location.path is not None)
        self._inherited = self._inherited or held
        if session is not None:
            session.park()

    def _begin_passed(self, connection: sqlite3.Connection) -> None:
        """Begin as a writer. Raises SelfLocked if another transaction of the caller holds the lock."""
        try:
            begin_soon(connection, SUSPICIOUS)
        except StorageBusy:
            self._refuse_self_lock(blocks=True, passed=connection)
            with translated():
                connection.execute("begin immediate")

    def _run_passed(self, connection: sqlite3.Connection, op: Op[T]) -> tuple[T, set[str]]:
        if self._settings.location.memory:
            self._session()
        elif self._current is None:
            self._inspect()
        try:
            answer, topics = self._borrowed.run(connection, op, self._settings.clock.now(), self._check_borrowed_schema)
        except StorageBusy as busy:
            if busy.__cause__ is not None and is_busy(busy.__cause__):
                self._refuse_self_lock(blocks=True, passed=connection)
            raise
        # The watches see the caller's commit, here and in other processes, like one of another process; a rollback
        # notifies no one.
        self._watch.expect_strangers()
        if topics:
            self._notices.announce_borrowed()
        return answer, topics

    def _inspect(self) -> None:
        self._refuse_if_inherited()
        if not self._inspected:
            inspect(self._settings.location, allow_unsafe_fs=self._settings.allow_unsafe_fs)
            self._inspected = True

    def _check_borrowed_schema(self, cursor: sqlite3.Cursor) -> None:
        """Create the schema in the caller's own transaction, where the store itself has not opened the file yet.

        Opening the file may need the lock that this very transaction holds.
        """
        session = self._current
        if session is not None and session.approves(cursor):
            return
        present = schema.applied(cursor)
        if session is None and self._settings.auto_migrate and migrate.pending(present, "sqlite"):
            schema.upgrade_within(cursor, self._settings.clock.now())
            return
        migrate.check(present, "sqlite")
        if session is None and _is_in_wal(cursor):
            self._open_without_waiting()

    def _run(self, work: Work, weight: int = 1) -> Any:
        try:
            return self._combiner.run(work, weight)
        except Contended:
            self._refuse_self_lock(blocks=True)
        return self._combiner.run(structs.replace(work, settled_to_wait=True), weight)

    async def _arun(self, work: Work, weight: int = 1) -> Any:
        try:
            return await self._combiner.arun(work, weight)
        except Contended:
            self._refuse_self_lock(blocks=False)
        return await self._combiner.arun(structs.replace(work, settled_to_wait=True), weight)

    def _refuse_self_lock(self, *, blocks: bool, passed: sqlite3.Connection | None = None) -> None:
        """Raise where the lock is held by a transaction of the caller that waits for it, other than the passed one."""
        path = self._settings.location.path
        if path is None:
            held = blocks and self._borrowed.held_by_this_thread(passed)
        else:
            held = caller_holds_lock(path, blocks=blocks, passed=passed)
        if held:
            raise self_locked(path, passed=passed is not None) from None

    def _session(self) -> Session:
        """Return the session, opened if need be. Waits for a file that is not in WAL mode yet."""
        if self._current is not None:
            return self._current
        try:
            return self._open(SUSPICIOUS)
        except StorageBusy:
            self._refuse_self_lock(blocks=True)
        return self._open(PATIENCE)

    async def _aopen(self) -> Session:
        """Open off the loop where it may have to wait: the blocking transaction may be that of another task."""
        with suppress(StorageBusy):
            return self._open(0)
        with suppress(StorageBusy):
            return await asyncio.to_thread(self._open, SUSPICIOUS)
        self._refuse_self_lock(blocks=False)
        return await asyncio.to_thread(self._open, PATIENCE)

    def _open_without_waiting(self) -> None:
        """Open a session if that needs no waiting: this call works without one, but later ones are faster with it."""
        if time.monotonic() < self._try_again_at:
            return
        try:
            self._open(0)
        except StorageBusy:
            self._try_again_at = time.monotonic() + 1

    def _open(self, patience: float) -> Session:
        if not self._opening.acquire(timeout=patience):
            raise StorageBusy(
                "another thread is opening the file, and waits for others; repeat the call", backend="sqlite"
            )
        try:
            if self._closed:
                raise StorageUnavailable("the store is closed; open it again", backend="sqlite")
            if self._current is None:
                self._require_file()
                self._current = self._new_session(patience)
                self._notices.reopen_if_deleted()
                self._notices.open()
                self._had_file = self._settings.location.path is not None
            return self._current
        finally:
            self._opening.release()

    def _new_session(self, patience: float) -> Session:
        create, exclusive = not self._had_file, self._combiner.exclusive
        try:
            return Session(self._settings, self._committed, exclusive, create=create, patience=patience)
        except StorageBusy as error:
            raise held_too_long(patience) from error

    def _refuse_if_inherited(self) -> None:
        if self._inherited:
            raise StorageUnavailable(
                f"this process was forked while its parent used {self._settings.location.path} in a way that could"
                " not be ended; close connections of app.connect() before a fork, or start new processes (spawn)",
                backend="sqlite",
            )

    def _require_file(self) -> None:
        """Refuse a missing file: an empty store in its place would hide the loss, and take its log with it."""
        self._refuse_if_inherited()
        if self._lost_log is not None:
            raise StorageUnavailable(self._lost_log, backend="sqlite")
        path = self._settings.location.path
        if self._had_file and path is not None and not os.path.exists(path):
            raise StorageUnavailable(
                f"{path} was there and is gone; put it back, or restart the program to begin with an empty store",
                backend="sqlite",
            )

    def _commit(self, batch: Sequence[Waiter[Work]]) -> None:
        try:
            session = self._current or self._open(time_left(batch))
        except StorageBusy as error:
            give_up(batch, error)
            return
        reads = batch[0].work.reads and all(waiter.work.reads for waiter in batch)
        if session.mismatch is not None and not reads:
            raise own_copy(session.mismatch)
        # 2 µs, once per commit.
        if (lost := session.lost_file) is not None:
            raise self._abandon(session, lost)
        session.writer.commit(batch)

    def _abandon(self, session: Session, lost: str) -> StorageUnavailable:
        """Use a session never again. The caller keeps writers out."""
        path = self._settings.location.path
        message = f"{lost} was deleted or replaced while it was open; nothing was written;"
        if lost == path:
            self._current = None
            session.park()
            advice = " put it back if it is gone: the file that is there by then is opened next time"
            return StorageUnavailable(message + advice, backend="sqlite")
        is_saved = session.save_log()
        held = "all that was stored before is in the file" if is_saved else "what was stored last may be lost"
        self._lost_log = f"{message} stop all programs that use {path} and start them again; {held}"
        self._current = None
        session.park()
        return StorageUnavailable(self._lost_log, backend="sqlite")

    def _check_log(self, error: Exception) -> None:
        """After a read that failed: raise what explains it, if the log was deleted."""
        session = self._current
        lost = None if session is None else session.lost_file
        if session is None or lost is None or lost == self._settings.location.path:
            return
        with self._combiner.exclusive():
            if self._current is session:
                raise self._abandon(session, lost) from error

    def _committed(self, topics: set[str], changes: int) -> None:
        self._topics |= topics
        self._changes += changes

    def _notify_listeners(self) -> None:
        """Notify the checkpointer and the listeners of topics: the leader's last act.

        After the callers: each woken thread takes the interpreter for a while, which cost 0.3 ms of an idle worker's
        delay when they came first.
        """
        session = self._current
        topics, changes, self._topics, self._changes = self._topics, self._changes, set(), 0
        if session is None:
            return
        if changes:
            session.note(changes)
        if topics:
            self._announce(topics)
        if self._wakeups.has_listeners:
            self._check_notices()
            if self._watch.expects_strangers and self._strangers_wrote(session):
                self._wakeups.notify_all()

    def _strangers_wrote(self, session: Session) -> bool:
        try:
            return session.writer.strangers_wrote()
        except sqlite3.Error:
            return True  # the woken threads find out; callers whose work is committed must not get an error

    def _check_notices(self) -> bool:
        """Wake listeners of topics that other processes notified; return whether there were any."""
        slots = self._notices.changed() or set()
        if BORROWED in slots:
            self._watch.expect_strangers()
        self._wakeups.notify_slots(slots)
        return bool(slots)

    def _announce(self, topics: Collection[str]) -> None:
        """Notify listeners, here and in other processes, after a committed transaction."""
        self._wakeups.notify(topics)
        self._notices.notify(topics)

    def _look(self) -> bool:
        """Wake listeners if other processes notified topics or, where it matters, committed; return whether so."""
        session = self._session()
        notified = self._check_notices()
        if not self._watch.expects_strangers:
            return notified
        announcements = self._watch.announcements
        with self._combiner.exclusive():
            wrote = session.writer.strangers_wrote()
        self._watch.note_check(announcements, wrote=wrote)
        if wrote:
            self._wakeups.notify_all()
        return wrote or notified

    def _movements(self) -> int:
        return self._current.writer.movements if self._current is not None else 0


def _is_in_wal(cursor: sqlite3.Cursor) -> bool:
    return cursor.execute("pragma journal_mode").fetchall() == [("wal",)]
