"""Work that waits for the writer: operations with the facts about their callers, and their grouping."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ...errors import SelfLocked, StorageBusy, StorageFull
from ..port import ListOp, Op
from ..waiter import Waiter
from .connect import PATIENCE

SUSPICIOUS: Final = 0.1
"""Seconds after which a caller that waits for the lock is checked for holding it itself."""
_JOIN_IT: Final = "pass it as connection=, enqueue inside app.within(…), or commit it first"
# Operations in one statement; a millisecond or two.
_MERGED: Final = 256


class Work(msgspec.Struct, frozen=True):
    """An operation, and the facts about its caller."""

    op: Op[Any] | ListOp[Any, Any]
    reads: bool = False
    settled_to_wait: bool = False
    """It has met a busy lock, and its caller does not hold that itself."""

    @property
    def vital(self) -> bool:
        """Return whether it is the worker's own: it sets its patience, and must succeed even when the disk is full."""
        return self.op.patience is not None

    @property
    def may_ask_caller(self) -> bool:
        """Return whether its caller may hold the lock itself, and was not checked yet."""
        return not (self.vital or self.settled_to_wait)

    @property
    def patience(self) -> float:
        if self.op.patience is not None:
            return self.op.patience
        return PATIENCE if self.settled_to_wait else min(SUSPICIOUS, PATIENCE)


def by_kind(batch: Sequence[Waiter[Work]]) -> Iterator[Sequence[Waiter[Work]]]:
    """Group neighbours that can be merged, a few hundred at most, and any other alone."""
    start = 0
    while start < len(batch):
        end, kind = start + 1, _kind(batch[start])
        while kind is not None and end < min(len(batch), start + _MERGED) and _kind(batch[end]) is kind:
            end += 1
        yield batch[start:end]
        start = end


def _kind(waiter: Waiter[Work]) -> object:
    op = waiter.work.op
    return op.run if isinstance(op, ListOp) else None


def refuse_all_but_vital(batch: Sequence[Waiter[Work]]) -> list[Waiter[Work]]:
    for waiter in batch:
        if not (waiter.work.vital or waiter.work.reads):
            waiter.fail(StorageFull("the disk is full; free space and repeat the call", backend="sqlite"))
    return [waiter for waiter in batch if not waiter.settled]


def first_deadline(batch: Sequence[Waiter[Work]]) -> float:
    """Return when the first of them gives up, by the monotonic clock."""
    return min(waiter.since + waiter.work.patience for waiter in batch)


def time_left(batch: Sequence[Waiter[Work]]) -> float:
    """Return the seconds until the first of them gives up."""
    return max(0.0, first_deadline(batch) - time.monotonic())


def give_up(batch: Sequence[Waiter[Work]], cause: Exception) -> None:
    now = time.monotonic()
    for waiter in batch:
        if waiter.since + waiter.work.patience > now:
            continue
        work = waiter.work
        error = Contended("the lock is held", backend="sqlite") if work.may_ask_caller else held_too_long(work.patience)
        error.__cause__ = cause
        waiter.fail(error)


class Contended(StorageBusy):
    """The lock was busy for a moment. The store catches it, and waits on unless the caller holds the lock itself."""


def held_too_long(seconds: float) -> StorageBusy:
    return StorageBusy(
        f"another connection held the lock for {seconds:g} s; repeat the call. If that is a transaction of your own,"
        f" {_JOIN_IT}",
        backend="sqlite",
    )


def self_locked(path: str | None, *, passed: bool = False) -> SelfLocked:
    """Return the error for a caller that waits for itself; `passed` says that it passed another connection."""
    if passed:
        return SelfLocked(
            f"another open transaction of yours holds the lock of {path or 'the database'}, and this connection would"
            " wait for its end; pass the same connection to both calls, or commit the other one first",
            backend="sqlite",
        )
    return SelfLocked(
        f"your own open transaction holds the lock of {path or 'the database'}, and this call would wait for its end;"
        f" {_JOIN_IT}",
        backend="sqlite",
    )
