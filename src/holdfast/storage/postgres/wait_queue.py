"""Operations that wait to be merged: one queue for each kind, served in turn. Not thread-safe; its owner locks it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

from ...errors import QueueFull
from ..port import ListOp

MAX_ITEMS: Final = 1_000
MAX_WAITING: Final = 10_000


class Waiting(Protocol):
    """One caller's operation, and the number of its items as its weight."""

    work: ListOp[Any, Any]
    weight: int
    taken: bool


W = TypeVar("W", bound=Waiting)


class WaitQueue(Generic[W]):
    """Operations in the order of arrival, by kind."""

    def __init__(self) -> None:
        self._by_kind: OrderedDict[Callable[..., Any], deque[W]] = OrderedDict()

    def __iter__(self) -> Iterator[W]:
        for queue in self._by_kind.values():
            yield from queue

    def __len__(self) -> int:
        return sum(map(len, list(self._by_kind.values())))

    def __bool__(self) -> bool:
        return bool(self._by_kind)

    def __contains__(self, waiting: W) -> bool:
        return waiting in self._by_kind.get(waiting.work.run, ())

    def add(self, waiting: W) -> None:
        if (count := sum(map(len, self._by_kind.values()))) >= MAX_WAITING:
            raise QueueFull(f"{count:,} writes wait in this process; slow down or retry")
        self._by_kind.setdefault(waiting.work.run, deque()).append(waiting)

    def take_into(self, batch: list[W]) -> None:
        """Move the next ones there: of one kind, at most MAX_ITEMS items unless a single call brings more.

        Each is there before it leaves its queue: an interrupt in between loses none.
        """
        if not self._by_kind:
            return
        kind, queue = next(iter(self._by_kind.items()))
        items = 0
        while queue and (not items or items + queue[0].weight <= MAX_ITEMS):
            waiting = queue[0]
            items += waiting.weight
            batch.append(waiting)
            queue.popleft()
            # Set last: a taken operation has left its queue, and is not searched for there.
            waiting.taken = True
        self._by_kind.move_to_end(kind)
        if not queue:
            del self._by_kind[kind]

    def remove(self, waiting: W) -> None:
        """Remove an operation that was not taken."""
        queue = self._by_kind.get(waiting.work.run)
        if queue is None or waiting not in queue:
            return
        queue.remove(waiting)
        if not queue:
            del self._by_kind[waiting.work.run]
