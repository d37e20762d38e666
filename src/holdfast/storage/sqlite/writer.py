"""Runs batches of operations on the one connection that writes. The leader of the group commit calls it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from ...clock import Clock
from ...errors import OutcomeUnknown, StorageFull
from ..lists import merged, split
from ..port import Files
from ..step import step
from ..waiter import Waiter, own_copy
from .connect import PATIENCE, patiently
from .failures import code, is_busy, translate
from .garbled import as_it_is, is_garbled
from .reserve_file import Ballast
from .tx import SqliteTx
from .work import Work, by_kind, give_up, refuse_all_but_vital

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
        if self._ballast is not None and not self._ballast.restore():
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
        self._roll_back()  # left open by a leader that was interrupted twice
        self._choose_sync(batch)
        changes, topics = self.connection.total_changes, set[str]()
        try:
            # Within the block: an interrupt may come when the lock is taken and nothing else has begun.
            if not self._begin(batch):
                return
            self.movements |= 1
            verdicts = self._run_all(batch, topics)
            if verdicts:
                self._end()
        except sqlite3.Error as error:
            raise _Lost(translate(error)) from error
        finally:
            self._roll_back()
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
        try:
            self._take_lock(self._lock_to_read if reads else self._lock_to_write, batch)
            return reads or self._may_write(batch)
        except sqlite3.OperationalError as error:
            self._roll_back()
            if not is_busy(error):
                raise _Lost(translate(error)) from error
            give_up(batch, error)
            return False

    def _take_lock(self, lock: Callable[[], None], batch: Sequence[Waiter[Work]]) -> None:
        try:
            lock()  # nearly always free; the callers' patience is computed only where it is not
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            deadline = min(waiter.since + waiter.work.patience for waiter in batch)
            patiently(lock, min(deadline, time.monotonic() + _SLICE))

    def _may_write(self, batch: Sequence[Waiter[Work]]) -> bool:
        """Return whether this code may still write to the schema; 2 µs, once per commit."""
        if (refusal := self._refusal()) is None:
            return True
        self._roll_back()
        for waiter in batch:
            waiter.fail(own_copy(refusal))
        return False

    def _lock_to_write(self) -> None:
        self._cursor.execute("begin immediate")

    def _lock_to_read(self) -> None:
        # Only in a database in memory, where a borrowed connection that has written keeps readers out.
        self._cursor.execute("begin")
        try:
            self._cursor.execute("select 1 from sqlite_master").fetchall()
        except BaseException:
            self._roll_back()
            raise

    def _run_all(self, batch: Sequence[Waiter[Work]], topics: set[str]) -> list[_Verdict]:
        """Return the results of operations that ran. Empty where a lone one failed: there is nothing to commit."""
        if len(batch) == 1:
            return self._run_lone(batch[0], topics)
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
        ops = [op for waiter in alike if (op := waiter.work.merges) is not None]
        whole = self._run(Waiter(Work(merged(ops)), 1), topics)
        if whole.error is not None:
            return [self._run(waiter, topics) for waiter in alike]
        return [_Verdict(waiter, part) for waiter, part in zip(alike, split(ops, whole.value), strict=True)]

    def _run_lone(self, waiter: Waiter[Work], topics: set[str]) -> list[_Verdict]:
        tx = SqliteTx(self._cursor, self._clock.now(), self._files)
        try:
            value = step(waiter.work.op.run(tx))
        except Exception as error:
            if code(error) == sqlite3.SQLITE_FULL:
                raise
            if is_garbled(error):
                raise _Lost(error) from error
            waiter.fail(_typed(error))
            return []
        self._require_transaction(None)
        topics |= tx.topics
        return [_Verdict(waiter, value)]

    def _run(self, waiter: Waiter[Work], topics: set[str]) -> _Verdict:
        guarded = not waiter.work.op.single
        tx = SqliteTx(self._cursor, self._clock.now(), self._files)
        if guarded:
            self._cursor.execute("savepoint op")
        try:
            value = step(waiter.work.op.run(tx))
        except Exception as error:
            if is_garbled(error):
                # It may have written before it read: all is rolled back, and each runs again by itself.
                raise _Lost(error) from error
            self._require_transaction(error)
            if guarded:
                self._cursor.execute("rollback to op")
                self._cursor.execute("release op")
            return _Verdict(waiter, error=_typed(error))
        self._require_transaction(None)
        if guarded:
            self._cursor.execute("release op")
        topics |= tx.topics
        return _Verdict(waiter, value)

    def _require_transaction(self, error: Exception | None) -> None:
        # After a full disk there may be no transaction left, and every later statement would commit by itself.
        if not self.connection.in_transaction or (error is not None and code(error) == sqlite3.SQLITE_FULL):
            cause = error or sqlite3.OperationalError("the transaction was rolled back")
            raise _Lost(_typed(cause)) from cause

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

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            self._cursor.execute("rollback")

    def _data_version(self) -> int:
        version: int = self._cursor.execute("pragma data_version").fetchall()[0][0]
        return version


def _typed(error: Exception) -> Exception:
    return translate(error) if isinstance(error, (sqlite3.Error, sqlite3.Warning)) else error
