"""What all parts of the lease API share: the two colours, and handles."""

from __future__ import annotations

import random as _random
from collections.abc import Callable, Iterable
from typing import Final, Self, TypeVar

from ..codec import VALUE_LIMIT
from ..engine.lending import Tasks
from ..model.lease import OWN_PROCESS, Caller
from ..names import check_name
from ..rules.handles import Lease, Origin, read, write
from ..storage.ops import keys, lending
from ..storage.port import Op, Store, Tx
from .lines import AwaitingLine, BlockingLine, Line

T = TypeVar("T")

_POLL: Final = 2.0


class LeaseBase:
    """Each call is written once, as a coroutine over a line to the store."""

    def __init__(
        self,
        store: Callable[[], Store],
        tasks: Tasks,
        caller: Caller = OWN_PROCESS,
        *,
        limit: Callable[[], int] = lambda: VALUE_LIMIT,
        random: Callable[[], float] = _random.random,
        poll: Callable[[], float] = lambda: _POLL,
    ) -> None:
        """`limit` says how many bytes a result or the value of a step may have, `poll` how often a claim looks."""
        self._limit = limit
        self._random = random
        self._poll = poll
        self._store = store
        self._blocking = BlockingLine(store)
        self._awaiting = AwaitingLine(store)
        self._tasks = tasks
        self._caller = caller
        self._known: list[tuple[Store, Origin]] = []
        """The origin of the store that is open, shared by all callers."""

    def _of(self, caller: Caller) -> Self:
        """The same for a caller over HTTP, whose workers are its own."""
        view = type(self)(self._store, self._tasks, caller, limit=self._limit, random=self._random, poll=self._poll)
        view._known = self._known
        return view

    async def _lease(self, line: Line, handle: str) -> Lease:
        """The run that a handle stands for; BadHandle where it is not one of this store."""
        return read(await self._origin(line), handle, self._caller.holder)

    async def _leases(self, line: Line, handles: Iterable[str]) -> dict[str, Lease]:
        origin = await self._origin(line)
        return {handle: read(origin, handle, self._caller.holder) for handle in handles}

    async def _handle(self, line: Line, lease: Lease) -> str:
        return write(await self._origin(line), lease, self._caller.holder)

    async def _origin(self, line: Line) -> Origin:
        store = line.store
        if not self._known or self._known[0][0] is not store:
            self._known[:] = [(store, Origin(store.backend, *await line.write(Op(_identity))))]
        return self._known[0][1]


async def _identity(tx: Tx) -> tuple[str, bytes]:
    return await lending.identity(tx), await keys.store_secret(tx)


def check_worker(worker: object) -> str:
    return check_name("the worker's id", worker)
