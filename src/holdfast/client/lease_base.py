"""What all parts of the lease API share: the two colours, and handles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ..engine.lending import Tasks
from ..names import check_name
from ..rules.handles import Lease, Origin, read, write
from ..storage.ops import lending
from ..storage.port import Op, Store
from .lease_reach import AwaitingLine, BlockingLine, Line

T = TypeVar("T")


class LeaseBase:
    """Each call is written once, as a coroutine over a line to the store."""

    def __init__(self, store: Callable[[], Store], tasks: Tasks) -> None:
        self._blocking = BlockingLine(store)
        self._awaiting = AwaitingLine(store)
        self._tasks = tasks
        self._known: tuple[Store, Origin] | None = None

    async def _lease(self, line: Line, handle: str) -> Lease:
        """The run that a handle stands for; BadHandle where it is not one of this store."""
        return read(await self._origin(line), handle)

    async def _leases(self, line: Line, handles: Iterable[str]) -> dict[str, Lease]:
        origin = await self._origin(line)
        return {handle: read(origin, handle) for handle in handles}

    async def _handle(self, line: Line, lease: Lease) -> str:
        return write(await self._origin(line), lease)

    async def _origin(self, line: Line) -> Origin:
        store = line.store
        if self._known is None or self._known[0] is not store:
            self._known = (store, Origin(store.backend, await line.write(Op(lending.identity))))
        return self._known[1]


def check_worker(worker: object) -> str:
    return check_name("the worker's id", worker)
