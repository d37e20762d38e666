"""A SQLite database, opened: one writer shared by a combining lock, readers apart, wake-ups, checkpoints.

The file is opened on first use, and again after a fork. A fresh or older schema is brought up to date then; a newer
one may be read but not written.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TypeVar, cast

from ...clock import SYSTEM_CLOCK, Clock
from ...errors import StorageUnavailable
from ..blobs import Blobs, TableBlobs
from ..combine import Combiner
from ..foreign import Host, arun_within, run_within
from ..forking import leave_before_fork, renew_after_fork
from ..port import ListOp, Op, Value
from ..waiter import Waiter, own_copy
from .bell import SqliteBell
from .describe import describe
from .failures import translated
from .files import FileBlobs
from .lent import Connection, Lent
from .location import locate
from .session import Session, Settings
from .watch import Watch
from .work import Work

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
        self._settings = Settings(
            location=locate(where),
            clock=clock or SYSTEM_CLOCK,
            durable=durable,
            auto_migrate=auto_migrate,
            allow_unsafe_fs=allow_unsafe_fs,
        )
        path = self._settings.location.path
        self._current: Session | None = None
        self._rung: set[str] = set()
        self._changes = 0
        self._had_file = False
        self._while_away = ExitStack()
        self._inherited = False
        self._lent_at_fork = False
        self._opening = threading.Lock()
        self._closed = False
        self._lent = Lent(self._settings.location, durable=durable)
        self._combiner: Combiner[Work] = Combiner(self._commit, room=room, told=self._spread_news)
        self._watch = Watch(self._look, self._movements, path and f"{path}-wal")
        self._bell = SqliteBell(self._watch)
        self._blobs: Blobs = FileBlobs(path) if path else TableBlobs()
        self._host = Host("sqlite", self._settings.clock, self._bell.ring, run_on_sqlite=self._run_lent)
        renew_after_fork(self)
        if path is not None:
            leave_before_fork(self)

    @property
    def bell(self) -> SqliteBell:
        return self._bell

    @property
    def blobs(self) -> Blobs:
        return self._blobs

    @property
    def writes_waiting(self) -> int:
        return self._combiner.waiting

    def write(self, op: Op[T]) -> T:
        return cast("T", self._combiner.run(self._work(op)))

    async def awrite(self, op: Op[T]) -> T:
        return cast("T", await self._combiner.arun(self._work(op, blocks=False)))

    def write_list(self, op: ListOp[Item, T]) -> list[T]:
        return cast("list[T]", self._combiner.run(self._list_work(op), len(op.items)))

    async def awrite_list(self, op: ListOp[Item, T]) -> list[T]:
        return cast("list[T]", await self._combiner.arun(self._list_work(op, blocks=False), len(op.items)))

    def read(self, op: Op[T]) -> T:
        if readers := self._session().readers:
            return readers.read(op)
        return cast("T", self._combiner.run(self._work(op, reads=True)))

    async def aread(self, op: Op[T]) -> T:
        if readers := self._session().readers:
            return await readers.aread(op)
        return cast("T", await self._combiner.arun(self._work(op, reads=True, blocks=False)))

    def within(self, connection: object, op: Op[T]) -> T:
        return run_within(self._host, connection, op)

    async def awithin(self, connection: object, op: Op[T]) -> T:
        return await arun_within(self._host, connection, op)

    def connect(self) -> Connection:
        """A connection of the caller's own, for this thread, with the settings that this file needs."""
        self._session()
        self._watch.arm()
        return self._lent.make()

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
        with self._opening:
            session, self._current = self._current, None
        if session is not None:
            session.stop()
            session.close()

    def before_fork(self) -> None:
        """Close the file. SQLite notes its locks on a file in memory: a child that inherits the notes believes that
        it holds what it does not hold, or waits for ever for what nobody holds."""
        self._lent_at_fork = self._lent.any_open()
        try:
            self._while_away.enter_context(self._combiner.exclusive())
        except RuntimeError:
            return  # forked in the middle of this thread's own commit
        self._while_away.enter_context(self._opening)
        if self._current is not None and self._current.leave(self._while_away):
            self._current = None

    def after_fork_in_parent(self) -> None:
        self._while_away.close()
        # What strangers committed meanwhile is not known to be new.
        self._bell.ring_all()

    def renew_after_fork(self) -> None:
        """What the parent opened is neither used nor closed here."""
        self._opening = threading.Lock()
        self._while_away = ExitStack()
        self._lent = Lent(self._settings.location, durable=self._settings.durable)
        session, self._current = self._current, None
        held = self._lent_at_fork or (session is not None and self._settings.location.path is not None)
        self._inherited = self._inherited or held
        if session is not None:
            session.park()

    def _run_lent(self, connection: sqlite3.Connection, op: Op[T]) -> tuple[T, set[str]]:
        session = self._writable()
        # The caller's commit is seen by the watch, as a stranger's would be; a rollback rings nobody.
        self._watch.arm()
        return self._lent.run(connection, op, self._settings.clock.now(), session.refusal)

    def _work(self, op: Op[T], *, reads: bool = False, blocks: bool = True) -> Work:
        return Work(op, reads, holds=self._lent.held_by_this_thread(), blocks=blocks)

    def _list_work(self, op: ListOp[Item, T], *, blocks: bool = True) -> Work:
        alone = Op(lambda tx: op.run(tx, op.items), single=len(op.items) == 1)
        return Work(alone, holds=self._lent.held_by_this_thread(), blocks=blocks, merges=op)

    def _session(self) -> Session:
        return self._current or self._open()

    def _open(self) -> Session:
        with self._opening:
            if self._closed:
                raise StorageUnavailable("the store is closed; open it again", backend="sqlite")
            if self._current is None:
                self._require_file()
                self._current = Session(
                    self._settings, self._committed, self._combiner.exclusive, create=not self._had_file
                )
                self._had_file = self._settings.location.path is not None
            return self._current

    def _require_file(self) -> None:
        """An empty store in the place of one that is gone would hide that, and take its log with it."""
        path = self._settings.location.path
        if self._inherited:
            raise StorageUnavailable(
                f"this process was forked while its parent used {path} in a way that could not be ended;"
                " close connections of app.connect() before a fork, or start processes afresh (spawn)",
                backend="sqlite",
            )
        if self._had_file and path is not None and not os.path.exists(path):
            raise StorageUnavailable(
                f"{path} was there and is gone; put it back, or start the program anew to begin with an empty store",
                backend="sqlite",
            )

    def _writable(self) -> Session:
        session = self._session()
        if session.mismatch is not None:
            raise own_copy(session.mismatch)
        return session

    def _commit(self, batch: Sequence[Waiter[Work]]) -> None:
        reads = batch[0].work.reads and all(waiter.work.reads for waiter in batch)
        session = self._session() if reads else self._writable()
        # 1 µs, once per commit.
        if session.is_of_another_file:
            self._current = None
            session.park()
            raise StorageUnavailable(
                f"{self._settings.location.path} was deleted or replaced while it was open; nothing was written,"
                " and the file that is there by then is opened next time",
                backend="sqlite",
            )
        session.writer.commit(batch)

    def _committed(self, rung: set[str], changes: int) -> None:
        self._rung |= rung
        self._changes += changes

    def _spread_news(self) -> None:
        """The leader's last act: tell the checkpointer and those who wait for topics.

        After the callers: each thread that is woken takes the interpreter for a while, 0.3 ms of an idle worker's
        delay when they came first.
        """
        session = self._current
        rung, changes, self._rung, self._changes = self._rung, self._changes, set(), 0
        if session is None:
            return
        if changes:
            session.note(changes)
        if self._bell.heard:
            if self._strangers_wrote(session):
                self._bell.ring_all()
            elif rung:
                self._bell.ring(rung)

    def _strangers_wrote(self, session: Session) -> bool:
        try:
            return session.writer.strangers_wrote()
        except sqlite3.Error:
            return True  # whoever wakes finds out; those whose work is committed must not be told that it failed

    def _look(self) -> bool:
        """The watch's question: has a stranger committed? Rings if so."""
        with self._combiner.exclusive():
            wrote = self._session().writer.strangers_wrote()
        if wrote:
            self._bell.ring_all()
        return wrote

    def _movements(self) -> int:
        return self._current.writer.movements if self._current is not None else 0
