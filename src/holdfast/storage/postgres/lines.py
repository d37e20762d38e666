"""Who waits to be merged: one line for each kind of operation, served in turn. Pure; its owner keeps it from races."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from ...errors import QueueFull
from ..port import ListOp

MAX_ITEMS: Final = 1_000
MAX_WAITING: Final = 10_000


@dataclass(eq=False, slots=True)
class Waiting:
    """One caller's operation."""

    op: ListOp[Any, Any]
    taken: bool = field(default=False, init=False)


W = TypeVar("W", bound=Waiting)


class Lines(Generic[W]):
    """Operations in the order of their coming, by kind."""

    def __init__(self) -> None:
        self._by_kind: OrderedDict[Callable[..., Any], deque[W]] = OrderedDict()
        self._count = 0

    def __iter__(self) -> Iterator[W]:
        for line in self._by_kind.values():
            yield from line

    def __len__(self) -> int:
        return self._count

    def add(self, waiting: W) -> None:
        if self._count >= MAX_WAITING:
            raise QueueFull(f"{self._count:,} writes wait in this process; slow down or retry")
        self._by_kind.setdefault(waiting.op.run, deque()).append(waiting)
        self._count += 1

    def take(self) -> list[W]:
        """The next batch: of one kind, at most MAX_ITEMS items unless a single call brings more."""
        if not self._by_kind:
            return []
        kind, line = self._by_kind.popitem(last=False)
        batch, items = [line.popleft()], 0
        items = len(batch[0].op.items)
        while line and items + len(line[0].op.items) <= MAX_ITEMS:
            batch.append(line.popleft())
            items += len(batch[-1].op.items)
        if line:
            self._by_kind[kind] = line
        for waiting in batch:
            waiting.taken = True
        self._count -= len(batch)
        return batch

    def remove(self, waiting: W) -> None:
        """Forget one that nobody has taken."""
        line = self._by_kind.get(waiting.op.run)
        if line is None or waiting not in line:
            return
        line.remove(waiting)
        self._count -= 1
        if not line:
            del self._by_kind[waiting.op.run]
