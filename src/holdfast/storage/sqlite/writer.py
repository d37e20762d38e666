"""Runs batches of operations on the one connection that writes. The leader of the group commit calls it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from ...clock import Clock
from ...errors import OutcomeUnknown, StorageFull
from ..lists import merged, split
from ..port import Files, ListOp
from ..step import step
from ..waiter import Waiter, own_copy
from .connect import PATIENCE, patiently
from .failures import code, is_busy, translate
from .garbled import as_it_is, is_garbled
from .reserve_file import Ballast
from .tx import SqliteTx
from .work import Work, by_kind, first_deadline, give_up, refuse_all_but_vital

BATCH_SECONDS: Final = 0.005
"""No further operation starts in a batch that has run for this long."""
# Then the next leader follows: newcomers may have less patience than this batch.
_SLICE: Final = 0.05


class _Verdict(msgspec.Struct, frozen=True):
    waiter: Waiter[Work]
    value: Any = None
    error: Exception | None = None


class _Lost(Exception):
    """The whole transaction is gone: SQLite rolled it back by itself, or COMMIT failed."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Writer:
    """Not safe by itself: the group commit lets one thread in at a time."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        clock: Clock,
        committed: Callable[[set[str], int], None],
        ballast: Ballast | None = None,
        *,
        durable: bool = True,
        files: Files | None = None,
        refusal: Callable[[], Exception | None] = lambda: None,
    ) -> None:
        self.connection = connection
        self._refusal = refusal
        self._durable = durable
        self._files = files
        self._synced: bool | None = True
        """None while it changes: an interrupt may come before or after the database is set."""
        self.movements = 0
        """Grows at the beginning and at the end of each transaction: odd while there is one."""
        self._cursor = connection.cursor()
        self._clock = clock
        self._committed = committed
        self._ballast = ballast
        self._version = self._data_version()

    def commit(self, batch: Sequence[Waiter[Work]]) -> None:
        """Run a batch in one transaction and settle it; operations that were not reached stay unsettled."""
        if self._ballast is not None and self._ballast.down and not self._ballast.restore():
            batch = refuse_all_but_vital(batch)
        if not batch:
            return
        try:
            self._attempt(batch)
        except _Lost as lost:
            if len(batch) == 1:
                self._last_resort(batch[0], lost.error)
                return
            # Nothing of the batch is in the database now. Each runs again by itself: one that cannot be stored (a full
            # disk, say) fails alone, and each gets its own result.
            for waiter in batch:
                self.commit([waiter])

    def close(self) -> None:
        # Its cursor first: SQLite keeps the file open for as long as a statement of the connection is.
        self._cursor.close()
        self.connection.close()

    def strangers_wrote(self) -> bool:
        """Return whether another connection has committed since the last call."""
        before, self._version = self._version, self._data_version()
        return before != self._version

    def _last_resort(self, waiter: Waiter[Work], error: Exception) -> None:
        if is_garbled(error):
            with as_it_is(self.connection):
                self.commit([waiter])
            return
        if isinstance(error, StorageFull) and self._ballast is not None:
            self._ballast.release()
            if waiter.work.vital:
                try:
                    self._attempt([waiter])
                except _Lost as lost:
                    error = lost.error
                else:
                    return
        waiter.fail(error)

    def _attempt(self, batch: Sequence[Waiter[Work]]) -> None:
        if self.connection.in_transaction:
            self._cursor.execute("rollback")  # left open by a leader that was interrupted twice
        if not self._synced or batch[0].work.op.may_lose_on_power_failure:
            self._choose_sync(batch)
        changes, topics = self.connection.total_changes, set[str]()
        try:
            # Within the block: an interrupt may come when the lock is taken and nothing else has begun.
            if not self._begin(batch):
                return
            self.movements |= 1
            verdicts = self._run_all(batch, topics) if len(batch) > 1 else [self._run(batch[0], topics, alone=True)]
            if verdicts[0].error is None or len(batch) > 1:  # else the only one failed: there is nothing to commit
                self._end()
        except sqlite3.Error as error:
            raise _Lost(translate(error)) from error
        finally:
            if self.connection.in_transaction:
                self._cursor.execute("rollback")
            self.movements = (self.movements | 1) + 1
        for verdict in verdicts:
            if verdict.error is None:
                verdict.waiter.succeed(verdict.value)
            else:
                verdict.waiter.fail(verdict.error)
        self._committed(topics, self.connection.total_changes - changes)

    def _choose_sync(self, batch: Sequence[Waiter[Work]]) -> None:
        """Choose whether this commit waits for the disk. Skipping that for a claim halves an idle worker's delay.

        The next commit that waits includes the earlier ones: they are in the same log.
        """
        synced = not (
            batch[0].work.op.may_lose_on_power_failure
            and all(waiter.work.op.may_lose_on_power_failure for waiter in batch)
        )
        if self._durable and synced is not self._synced:
            self._synced = None
            self._cursor.execute(f"pragma synchronous={'full' if synced else 'normal'}")
            self._synced = synced

    def _begin(self, batch: Sequence[Waiter[Work]]) -> bool:
        """Take the lock, or fail operations whose patience has ended; the others may keep waiting with newcomers."""
        reads = batch[0].work.reads and all(waiter.work.reads for waiter in batch)
        lock = self._lock_to_read if reads else partial(self._cursor.execute, "begin immediate")
        try:
            try:
                lock()
            except sqlite3.OperationalError:
                # Seldom: only here is the callers' patience computed. An error other than a busy lock comes again.
                patiently(lock, min(first_deadline(batch), time.monotonic() + _SLICE))
            # Whether this code may still write to the schema; 2 µs, once per commit.
            refusal = None if reads else self._refusal()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            give_up(batch, error)
            return False
        if refusal is None:
            return True
        for waiter in batch:
            waiter.fail(own_copy(refusal))
        return False

    def _lock_to_read(self) -> None:
        # Only in a database in memory, where a borrowed connection that has written keeps readers out.
        self._cursor.execute("begin")
        try:
            self._cursor.execute("select 1 from sqlite_master").fetchall()
        except BaseException:
            if self.connection.in_transaction:
                self._cursor.execute("rollback")
            raise

    def _run_all(self, batch: Sequence[Waiter[Work]], topics: set[str]) -> list[_Verdict]:
        """Return the results of operations that ran."""
        verdicts: list[_Verdict] = []
        stop = time.monotonic() + BATCH_SECONDS
        for alike in by_kind(batch):
            verdicts += self._run_alike(alike, topics)
            if time.monotonic() >= stop:
                break
        return verdicts

    def _run_alike(self, alike: Sequence[Waiter[Work]], topics: set[str]) -> list[_Verdict]:
        """Run operations of one kind as one; where that fails, each by itself, so that only the faulty one fails."""
        if len(alike) == 1:
            return [self._run(alike[0], topics)]
        ops = [op for waiter in alike if isinstance(op := waiter.work.op, ListOp)]
        whole = self._run(Waiter(Work(merged(ops)), 1), topics)
        if whole.error is not None:
            return [self._run(waiter, topics) for waiter in alike]
        return [_Verdict(waiter, part) for waiter, part in zip(alike, split(ops, whole.value), strict=True)]

    def _run(self, waiter: Waiter[Work], topics: set[str], *, alone: bool = False) -> _Verdict:
        """Run one operation. One that is alone in its transaction needs no savepoint."""
        op = waiter.work.op
        guarded = not (alone or op.single)
        tx = SqliteTx(self._cursor, self._clock.now(), self._files)
        if guarded:
            self._cursor.execute("savepoint op")
        try:
            value = step(op.run(tx, op.items) if isinstance(op, ListOp) else op.run(tx))
            if not self.connection.in_transaction:
                raise sqlite3.OperationalError("the transaction was rolled back")
        except Exception as error:
            if is_garbled(error):
                # It may have written before it read: all is rolled back, and each runs again by itself.
                raise _Lost(error) from error
            # After a full disk there may be no transaction left, and every later statement would commit by itself.
            if not self.connection.in_transaction or code(error) == sqlite3.SQLITE_FULL:
                raise _Lost(_typed(error)) from error
            if guarded:
                self._cursor.execute("rollback to op")
                self._cursor.execute("release op")
            return _Verdict(waiter, error=_typed(error))
        if guarded:
            self._cursor.execute("release op")
        topics |= tx.topics
        return _Verdict(waiter, value)

    def _end(self) -> None:
        try:
            self._cursor.execute("commit")
        except sqlite3.Error as error:
            if is_busy(error):
                patiently(lambda: self._cursor.execute("commit"), time.monotonic() + PATIENCE)
                return
            if code(error) != sqlite3.SQLITE_IOERR:
                raise
            # The frames may have reached the disk before the error: after a crash they would count.
            message = f"{error} at COMMIT; check the disk, look whether the change is there, then repeat it"
            raise _Lost(OutcomeUnknown(message, backend="sqlite")) from error

    def _data_version(self) -> int:
        version: int = self._cursor.execute("pragma data_version").fetchall()[0][0]
        return version


def _typed(error: Exception) -> Exception:
    return translate(error) if isinstance(error, (sqlite3.Error, sqlite3.Warning)) else error
