"""What waits for the writer: operations with what is known of their callers, and how many of them go together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ...errors import StorageBusy, StorageFull
from ..port import ListOp, Op
from ..waiter import Waiter
from .connect import PATIENCE

# A thread whose own transaction holds the lock would wait for itself; this long it may be somebody else's fault.
_SELF_LOCKED: Final = 0.1
# Operations in one statement; a millisecond or two.
_MERGED: Final = 256


class Work(msgspec.Struct, frozen=True):
    """An operation, and what is known of its caller."""

    op: Op[Any]
    reads: bool = False
    holds: bool = False
    """The caller's thread has a transaction of its own open on this database."""
    blocks: bool = True
    """The caller's thread waits. Where a task waits instead, another one may end that transaction meanwhile."""
    merges: ListOp[Any, Any] | None = None
    """The same as an operation that can be run together with others of its kind."""

    @property
    def vital(self) -> bool:
        """The engine's own: it says how long to try, and it must get through when the disk is full."""
        return self.op.patience is not None

    @property
    def patience(self) -> float:
        if self.holds and self.blocks:
            return _SELF_LOCKED
        return PATIENCE if self.op.patience is None else self.op.patience


def by_kind(batch: Sequence[Waiter[Work]]) -> Iterator[Sequence[Waiter[Work]]]:
    """Neighbours that can be merged together, a few hundred at most, and any other alone."""
    start = 0
    while start < len(batch):
        end, kind = start + 1, _kind(batch[start])
        while kind is not None and end < min(len(batch), start + _MERGED) and _kind(batch[end]) is kind:
            end += 1
        yield batch[start:end]
        start = end


def _kind(waiter: Waiter[Work]) -> object:
    merges = waiter.work.merges
    return None if merges is None else merges.run


def refuse_all_but_vital(batch: Sequence[Waiter[Work]]) -> list[Waiter[Work]]:
    for waiter in batch:
        if not (waiter.work.vital or waiter.work.reads):
            waiter.fail(StorageFull("the disk is full; free space and repeat the call", backend="sqlite"))
    return [waiter for waiter in batch if not waiter.settled]


def give_up(batch: Sequence[Waiter[Work]], cause: Exception) -> None:
    now = time.monotonic()
    for waiter in batch:
        if waiter.since + waiter.work.patience > now:
            continue
        if waiter.work.holds:
            message = (
                "an open transaction of this thread's own holds the lock;"
                " pass that connection as connection=, or commit it first"
            )
        else:
            message = f"another writer held the lock for {waiter.work.patience:g} s; repeat the call"
        error = StorageBusy(message, backend="sqlite")
        error.__cause__ = cause
        waiter.fail(error)
