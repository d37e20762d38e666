"""Merge list operations of one kind into one call, so that many callers share a round trip and a commit.

There is no timer: while a few batches are in flight, whatever arrives waits and goes together. An idle store adds no
delay. Callers on threads and callers on an event loop never share a merger, so neither can wait for the other.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from ...errors import OutcomeUnknown, StorageBusy, StorageFull, StorageReadOnly, StorageUnavailable
from ..lists import Answers, merged, split
from ..port import ListOp, Op
from ..waiter import BlockingWaiter, LoopWaiter, own_copy
from .wait_queue import WaitQueue

# A waiter checks for itself this often, in case the thread that should have served it was interrupted.
_RECHECK: Final = 0.05
_INTERRUPTED: Final = "the thread that wrote this was interrupted; look before repeating the call"
# These errors concern the whole batch, whatever is in it; running its parts again would only fail again.
_SHARED_FATE: Final = (OutcomeUnknown, StorageUnavailable, StorageBusy, StorageFull, StorageReadOnly)

_Write: TypeAlias = Op[Answers] | ListOp[Any, Any]


class _Ticket(BlockingWaiter[ListOp[Any, Any]], eq=False, kw_only=True):
    """A thread's operation while it waits."""

    until: float
    taken: bool = False

    def settle(self, answers: Answers, error: Exception | None = None) -> None:
        self.value, self.error, self.settled = answers, error, True
        self.wake()


class Merger:
    """Merger for blocking callers: a caller that finds a free place leads a batch, the others wait for it or to lead.

    Ctrl-C may come at any call. The interrupted caller cleans up after itself on its way out; what it cannot know of,
    the waiting callers clean up.
    """

    def __init__(self, write: Callable[[_Write, float], Answers], depth: int, limit: float = math.inf) -> None:
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
        ticket = _Ticket(op, len(op.items), until=time.monotonic() + self._limit)
        ticket.gate.acquire()
        try:
            with self._mutex:
                self._queue.add(ticket)
                if len(self._leaders) < self._depth:
                    self._leaders.add(ticket)
            self._await_answers(ticket)
        finally:
            # Also on Ctrl-C, at any point: leadership that is not handed over would stop every other caller.
            self._leave(ticket)
        if ticket.error is not None:
            raise ticket.error
        answers: Answers = ticket.value
        return answers

    def _join_again(self, ticket: _Ticket) -> None:
        """Put an operation back that a leader lost when it was interrupted, and lead if no other thread does."""
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
            if not ticket.pause(_RECHECK) and not ticket.settled:
                self._refuse_if_overdue(ticket)
                self._join_again(ticket)

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
                for other in batch:
                    if not other.settled:
                        other.settle([], OutcomeUnknown(_INTERRUPTED))

    def _run(self, batch: list[_Ticket]) -> None:
        if not batch:
            return
        op, until = _together(batch)
        try:
            parts = _shared(batch, self._write(op, until))
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
            for successor in self._queue:
                if successor not in self._leaders:
                    self._leaders.add(successor)
                    successor.wake()
                    break
            # Last: until here `_leave` can still hand over again.
            self._leaders.discard(ticket)

    def _leave(self, ticket: _Ticket) -> None:
        if not ticket.taken:
            with self._mutex:
                self._queue.remove(ticket)
        if ticket in self._leaders:
            self._hand_over(ticket)


class _AsyncTicket(LoopWaiter[ListOp[Any, Any]], eq=False, kw_only=True):
    """A task's operation while it waits."""

    until: float
    taken: bool = False


class AsyncMerger:
    """Merger for the tasks of one event loop. Batches run in their own tasks, so a cancelled caller harms no other."""

    def __init__(
        self, write: Callable[[_Write, float], Awaitable[Answers]], depth: int, limit: float = math.inf
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
        future = asyncio.get_running_loop().create_future()
        ticket = _AsyncTicket(op, len(op.items), future=future, until=time.monotonic() + self._limit)
        self._queue.add(ticket)
        if self._leading < self._depth:
            # It starts at the loop's next iteration, when the callers that are ready now have joined the queue too.
            self._leading += 1
            task = asyncio.create_task(self._lead())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            answers: Answers = await future
            return answers
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
        if now < batch[0].until:  # they are in the order of arrival
            return batch
        for ticket in batch:
            if ticket.until <= now and not ticket.future.done():
                ticket.future.set_exception(_never_sent(self._limit))
        return [ticket for ticket in batch if ticket.until > now]

    async def _run(self, batch: list[_AsyncTicket]) -> None:
        if not batch:
            return
        op, until = _together(batch)
        try:
            parts = _shared(batch, await self._write(op, until))
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


def _together(batch: Sequence[_Ticket] | Sequence[_AsyncTicket]) -> tuple[_Write, float]:
    """Return a batch as one operation, and when the first of its callers gives up."""
    if len(batch) == 1:
        return batch[0].work, batch[0].until
    return merged([ticket.work for ticket in batch]), min(ticket.until for ticket in batch)


def _shared(batch: Sequence[_Ticket] | Sequence[_AsyncTicket], answers: Answers) -> list[Answers]:
    return [answers] if len(batch) == 1 else split([ticket.work for ticket in batch], answers)


def _never_sent(limit: float) -> StorageUnavailable:
    message = f"the writes before this one had no answer for {limit:g} s, and it was not sent; repeat the call"
    return StorageUnavailable(message, backend="postgres")
