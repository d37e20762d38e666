"""Merge list operations of one kind into one call, so that many callers share a round trip and a commit.

There is no timer: while a few batches are in flight, whatever arrives waits and goes together. An idle store adds no
delay. Callers on threads and callers on an event loop never share a merger, so neither can wait for the other.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ...errors import OutcomeUnknown, StorageBusy, StorageFull, StorageReadOnly, StorageUnavailable
from ..lists import Answers, merged, split
from ..port import ListOp, Op
from ..waiter import own_copy
from .wait_queue import Waiting, WaitQueue

# A waiter checks for itself this often, in case the thread that should have served it was interrupted.
_RECHECK: Final = 0.05
# These errors concern the whole batch, whatever is in it; running its parts again would only fail again.
_SHARED_FATE: Final = (OutcomeUnknown, StorageUnavailable, StorageBusy, StorageFull, StorageReadOnly)


@dataclass(eq=False, slots=True)
class _Ticket(Waiting):
    """A thread's operation while it waits."""

    until: float = math.inf
    answers: Answers = field(default_factory=list)
    error: Exception | None = None
    settled: bool = False
    woken: threading.Event = field(default_factory=threading.Event)

    def settle(self, answers: Answers, error: Exception | None = None) -> None:
        self.answers, self.error, self.settled = answers, error, True
        self.woken.set()


class Merger:
    """Merger for blocking callers: a caller that finds a free place leads a batch, the others wait for it or to lead.

    Ctrl-C may come at any call. The interrupted caller cleans up after itself on its way out; what it cannot know of,
    the waiting callers clean up.
    """

    def __init__(self, write: Callable[[Op[Answers], float], Answers], depth: int, limit: float = math.inf) -> None:
        self._write = write
        self._depth = depth
        self._limit = limit
        # The leaders, not their number: a count that is off by one after an interrupt stays off.
        self._leaders: set[_Ticket] = set()
        self._queue: WaitQueue[_Ticket] = WaitQueue()
        self._mutex = threading.Lock()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def submit(self, op: ListOp[Any, Any]) -> Answers:
        ticket = _Ticket(op, time.monotonic() + self._limit)
        try:
            self._take_batch(ticket)
            self._await_answers(ticket)
        finally:
            # Also on Ctrl-C, at any point: leadership that is not handed over would stop every other caller.
            self._leave(ticket)
        if ticket.error is not None:
            raise ticket.error
        return ticket.answers

    def _take_batch(self, ticket: _Ticket) -> None:
        with self._mutex:
            if not ticket.taken and ticket not in self._queue:
                self._queue.add(ticket)
            if len(self._leaders) < self._depth:
                self._leaders.add(ticket)

    def _await_answers(self, ticket: _Ticket) -> None:
        while True:
            if ticket in self._leaders:
                self._lead(ticket)
                self._hand_over(ticket)
            if ticket.settled:
                return
            if not ticket.woken.wait(_RECHECK) and not ticket.settled:
                self._refuse_if_overdue(ticket)
                self._take_batch(ticket)
            ticket.woken.clear()

    def _refuse_if_overdue(self, ticket: _Ticket) -> None:
        """Raise where the batches before this one took all its time. A taken operation is settled by its leader."""
        if time.monotonic() >= ticket.until:
            with self._mutex:
                if not ticket.taken:
                    raise _never_sent(self._limit)

    def _lead(self, ticket: _Ticket) -> None:
        # Settled and not taken: another leader was interrupted between the two.
        while not (ticket.taken or ticket.settled):
            batch: list[_Ticket] = []
            try:
                with self._mutex:
                    self._queue.take_into(batch)
                self._run(batch)
            finally:
                unknown = OutcomeUnknown("the thread that wrote this was interrupted; look before repeating the call")
                for other in batch:
                    if not other.settled:
                        other.settle([], unknown)

    def _run(self, batch: list[_Ticket]) -> None:
        if not batch:
            return
        try:
            ops = [ticket.op for ticket in batch]
            parts = split(ops, self._write(merged(ops), min(ticket.until for ticket in batch)))
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, _SHARED_FATE):
                for ticket in batch:
                    self._run([ticket])
            else:
                for ticket in batch:
                    ticket.settle([], own_copy(error))
        else:
            for ticket, part in zip(batch, parts, strict=True):
                ticket.settle(part)

    def _hand_over(self, ticket: _Ticket) -> None:
        with self._mutex:
            successor = next((other for other in self._queue if other not in self._leaders), None)
            if successor is not None:
                self._leaders.add(successor)
                successor.woken.set()
            # Last: until here `_leave` can still hand over again.
            self._leaders.discard(ticket)

    def _leave(self, ticket: _Ticket) -> None:
        if not ticket.taken:
            with self._mutex:
                self._queue.remove(ticket)
        if ticket in self._leaders:
            self._hand_over(ticket)


@dataclass(eq=False, slots=True)
class _AsyncTicket(Waiting):
    """A task's operation while it waits."""

    future: asyncio.Future[Answers]
    until: float


class AsyncMerger:
    """Merger for the tasks of one event loop. Batches run in their own tasks, so a cancelled caller harms no other."""

    def __init__(
        self, write: Callable[[Op[Answers], float], Awaitable[Answers]], depth: int, limit: float = math.inf
    ) -> None:
        self._write = write
        self._depth = depth
        self._limit = limit
        self._queue: WaitQueue[_AsyncTicket] = WaitQueue()
        self._leading = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def submit(self, op: ListOp[Any, Any]) -> Answers:
        ticket = _AsyncTicket(op, asyncio.get_running_loop().create_future(), time.monotonic() + self._limit)
        self._queue.add(ticket)
        if self._leading < self._depth:
            # It starts at the loop's next iteration, when the callers that are ready now have joined the queue too.
            self._leading += 1
            task = asyncio.create_task(self._lead())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            return await ticket.future
        finally:
            if not ticket.taken:
                self._queue.remove(ticket)

    async def _lead(self) -> None:
        batch: list[_AsyncTicket] = []
        try:
            while self._queue:
                batch = []
                self._queue.take_into(batch)
                await self._run(self._in_time(batch))
        except BaseException:
            # The loop is being shut down: no other leader follows.
            for ticket in [*batch, *self._queue]:
                ticket.future.cancel()
            raise
        finally:
            # In the same iteration as the empty take: a caller that comes later must see the place free.
            self._leading -= 1

    def _in_time(self, batch: list[_AsyncTicket]) -> list[_AsyncTicket]:
        """Refuse operations for which the batches before this one took all their time; return the others."""
        now = time.monotonic()
        if now < min(ticket.until for ticket in batch):
            return batch
        for ticket in batch:
            if ticket.until <= now and not ticket.future.done():
                ticket.future.set_exception(_never_sent(self._limit))
        return [ticket for ticket in batch if ticket.until > now]

    async def _run(self, batch: list[_AsyncTicket]) -> None:
        if not batch:
            return
        try:
            ops = [ticket.op for ticket in batch]
            parts = split(ops, await self._write(merged(ops), min(ticket.until for ticket in batch)))
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, _SHARED_FATE):
                for ticket in batch:
                    await self._run([ticket])
            else:
                for ticket in batch:
                    if not ticket.future.done():
                        ticket.future.set_exception(own_copy(error))
        else:
            for ticket, part in zip(batch, parts, strict=True):
                if not ticket.future.done():
                    ticket.future.set_result(part)


def _never_sent(limit: float) -> StorageUnavailable:
    message = f"the writes before this one had no answer for {limit:g} s, and it was not sent; repeat the call"
    return StorageUnavailable(message, backend="postgres")
