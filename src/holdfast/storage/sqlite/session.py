"""What one process holds open on one SQLite database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from ...clock import Clock
from ...errors import SchemaMismatch
from .. import migrate
from ..forking import park
from . import schema
from .ballast import Ballast
from .checkpoint import Checkpointer
from .connect import PATIENCE, open_reader, open_writer
from .failures import translated
from .location import Location, inspect
from .readers import Readers
from .writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a store was asked to behave."""

    location: Location
    clock: Clock
    durable: bool = True
    auto_migrate: bool = True
    allow_unsafe_fs: bool = False


class Session:
    """Connections and the thread that checkpoints. Made on first use, and again in a forked child.

    `create` makes the file where there is none.
    """

    def __init__(
        self,
        settings: Settings,
        committed: Callable[[set[str], int], None],
        exclusive: Callable[[], AbstractContextManager[None]],
        *,
        create: bool = True,
    ) -> None:
        inspect(settings.location, allow_unsafe_fs=settings.allow_unsafe_fs)
        connection = open_writer(settings.location, durable=settings.durable, create=create)
        self.mismatch: SchemaMismatch | None = None
        self._schema_version = -1
        self._path = settings.location.path
        self._identity = _identity(self._path)
        self.readers: Readers | None = None
        self._checkpointer: Checkpointer | None = None
        self._mover: sqlite3.Connection | None = None
        try:
            with translated():
                self._examine(connection, settings)
                path = settings.location.path
                self.writer = Writer(
                    connection,
                    settings.clock,
                    committed,
                    Ballast(path) if path else None,
                    durable=settings.durable,
                    refusal=lambda: self.refusal(connection),
                )
                if path is not None:
                    self._mover = open_writer(settings.location, durable=True, create=False)
                    self._checkpointer = Checkpointer(connection, self._mover, exclusive)
                    self.readers = Readers(lambda: open_reader(settings.location), settings.clock)
        except BaseException:
            connection.close()
            if self._mover is not None:
                self._mover.close()
            raise

    def upgrade(self, now: int) -> list[str]:
        with translated():
            ran = schema.upgrade(self.writer.connection, now)
        self.mismatch = None
        return ran

    def drop(self) -> None:
        with translated():
            schema.drop(self.writer.connection)
        self.mismatch = SchemaMismatch('the schema was dropped; run "holdfast db migrate"', backend="sqlite")

    def refusal(self, connection: sqlite3.Connection | sqlite3.Cursor) -> SchemaMismatch | None:
        """Why nothing may be written. Asked within the transaction: a newer Holdfast may migrate an open file."""
        (version,) = connection.execute("pragma schema_version").fetchone()
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
    def is_of_another_file(self) -> bool:
        """Whether the file was deleted or replaced since it was opened: what is written here nobody would find."""
        if self._path is None:
            return False
        try:
            found = os.stat(self._path)
        except OSError:
            return True
        return (found.st_dev, found.st_ino) != self._identity

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
        """Leave everything as it is, for ever: this is the parent's."""
        park(self)

    def _close_writers(self) -> None:
        if self._mover is not None:
            self._mover.close()
        self.writer.close()

    def _examine(self, connection: sqlite3.Connection, settings: Settings) -> None:
        present = schema.applied(connection)
        try:
            if migrate.pending(present, "sqlite") and settings.auto_migrate:
                schema.upgrade(connection, settings.clock.now())
                return
            migrate.check(present, "sqlite")
        except SchemaMismatch as mismatch:
            self.mismatch = mismatch  # reading may go on


def _identity(path: str | None) -> tuple[int, int]:
    if path is None:
        return (0, 0)
    found = os.stat(path)
    return (found.st_dev, found.st_ino)
