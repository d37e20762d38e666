"""Everything that one process holds open on one SQLite database."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from ...clock import Clock
from ...errors import SchemaMismatch, StorageUnavailable
from .. import migrate
from ..forking import park
from . import schema
from .checkpoint import Checkpointer
from .connect import PATIENCE, open_reader, open_writer
from .failures import translated
from .files import files_of
from .location import Location, inspect, log_of
from .readers import Readers
from .reserve_file import Ballast
from .writer import Writer

_SCHEMA_VERSION: Final = "pragma schema_version"
# SQLite notes the pages that a statement changes, to undo it alone if it fails: from 64 KB on in a file that it makes
# and deletes again, for a claim of 100 too. A migration sorts whole tables, and keeps its files.
_SCRATCH_IN_MEMORY: Final = "pragma temp_store=memory"
_SCRATCH_IN_FILES: Final = "pragma temp_store=default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a store."""

    location: Location
    clock: Clock
    durable: bool = True
    auto_migrate: bool = True
    allow_unsafe_fs: bool = False


class Session:
    """Connections and the thread that checkpoints. Created on first use, and again in a forked child.

    `create` makes the file where there is none. `patience` bounds the wait for other users of the file.
    """

    def __init__(
        self,
        settings: Settings,
        committed: Callable[[set[str], int], None],
        exclusive: Callable[[], AbstractContextManager[None]],
        *,
        create: bool = True,
        patience: float = PATIENCE,
    ) -> None:
        deadline = time.monotonic() + patience
        inspect(settings.location, allow_unsafe_fs=settings.allow_unsafe_fs)
        connection = open_writer(settings.location, durable=settings.durable, create=create, deadline=deadline)
        self.mismatch: SchemaMismatch | None = None
        self._schema_version = -1
        self._path = settings.location.path
        self._identities: dict[str, tuple[int, int]] = {}
        self.readers: Readers | None = None
        self._checkpointer: Checkpointer | None = None
        self._mover: sqlite3.Connection | None = None
        try:
            with translated():
                self._examine(connection, settings, deadline)
                connection.execute(_SCRATCH_IN_MEMORY)
                path, files = settings.location.path, files_of(settings.location)
                self.writer = Writer(
                    connection,
                    settings.clock,
                    committed,
                    Ballast(path) if path else None,
                    durable=settings.durable,
                    files=files,
                    refusal=partial(self.refusal, connection),
                )
                if path is not None:
                    self._mover = open_writer(settings.location, durable=True, create=False, deadline=deadline)
                    self._checkpointer = Checkpointer(connection, self._mover, exclusive)
                    self.readers = Readers(lambda: open_reader(settings.location), settings.clock, files)
                    # Now the log is there too. As long as this is open, nothing but a mistake removes any of them.
                    self._identities = {name: _identity(name) for name in (path, *log_of(path))}
        except BaseException:
            connection.close()
            if self._mover is not None:
                self._mover.close()
            raise

    def upgrade(self, now: int) -> list[str]:
        with translated():
            self.writer.connection.execute(_SCRATCH_IN_FILES)
            try:
                ran = schema.upgrade(self.writer.connection, now)
            finally:
                self.writer.connection.execute(_SCRATCH_IN_MEMORY)
        self.mismatch = None
        return ran

    def drop(self) -> None:
        with translated():
            schema.drop(self.writer.connection)
        self.mismatch = SchemaMismatch('the schema was dropped; run "holdfast db migrate"', backend="sqlite")

    def approves(self, cursor: sqlite3.Cursor) -> bool:
        """Return whether a borrowed transaction sees the schema that this session last accepted.

        Nothing it sees is remembered: it may be rolled back, and SQLite then gives the same number again.
        """
        return self.mismatch is None and cursor.execute(_SCHEMA_VERSION).fetchall()[0][0] == self._schema_version

    def refusal(self, connection: sqlite3.Connection) -> SchemaMismatch | None:
        """Return why nothing may be written. Checked in the transaction: a newer Holdfast may migrate an open file."""
        version = connection.execute(_SCHEMA_VERSION).fetchall()[0][0]
        if version != self._schema_version:
            try:
                migrate.check(schema.applied(connection), "sqlite")
            except SchemaMismatch as mismatch:
                self.mismatch = mismatch
            else:
                self.mismatch = None
            self._schema_version = version
        return self.mismatch

    def note(self, changes: int) -> None:
        if self._checkpointer is not None:
            self._checkpointer.note(changes)

    @property
    def lost_file(self) -> str | None:
        """Return the file or log that was deleted or replaced since it was opened: writes here would be lost."""
        # Without a call of our own for each: it is asked before every commit.
        for name, identity in self._identities.items():
            try:
                found = os.stat(name)
            except OSError:
                return name
            if (found.st_dev, found.st_ino) != identity:
                return name
        return None

    def save_log(self) -> bool:
        """Move a deleted log into the file, where no other process has begun a new one; True if all of it is there.

        The caller keeps writers out.
        """
        assert self._path is not None
        log, _ = log_of(self._path)
        if self._mover is None or os.path.exists(log):
            return False
        try:
            self.writer.connection.execute("begin immediate")
            try:
                _, frames, moved = self._mover.execute("pragma wal_checkpoint(passive)").fetchone()
            finally:
                self.writer.connection.execute("rollback")
        except sqlite3.Error:
            return False
        return bool(frames == moved)

    def stop(self) -> None:
        """End the thread. It may need the combining lock to end, so the caller must not hold that."""
        if self._checkpointer is not None:
            self._checkpointer.close()

    def close(self) -> None:
        if self.readers is not None:
            self.readers.close()
        self._close_writers()

    def leave(self, while_away: ExitStack) -> bool:
        """Close everything before a fork. The caller keeps writers out. False where a read does not end."""
        if self.readers is not None:
            if not self.readers.leave(while_away, PATIENCE):
                return False
            self.readers.retire()
        if self._checkpointer is not None:
            self._checkpointer.retire()
        self._close_writers()
        return True

    def park(self) -> None:
        """Leave everything untouched for ever: it belongs to the parent."""
        park(self)

    def _close_writers(self) -> None:
        if self._mover is not None:
            self._mover.close()
        self.writer.close()

    def _examine(self, connection: sqlite3.Connection, settings: Settings, deadline: float) -> None:
        with suppress(SchemaMismatch):  # found again below; reading is possible
            if settings.auto_migrate and migrate.pending(schema.applied(connection), "sqlite"):
                schema.upgrade(connection, settings.clock.now(), deadline)
        connection.execute("begin")
        try:
            self.refusal(connection)
        finally:
            connection.execute("rollback")


def _identity(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as error:
        message = f"{path} was deleted while this program used it ({error.strerror}); start the program again"
        raise StorageUnavailable(message, backend="sqlite") from error
    return (found.st_dev, found.st_ino)
