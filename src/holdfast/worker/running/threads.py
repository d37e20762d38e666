"""Runs blocking callables on threads for the event loop, and tolerates those that never return.

A thread cannot be stopped. A call that is given up keeps its thread as a zombie; the pool replaces up to
`max_zombies` of them, and is exhausted beyond that: its owner should drain and restart the process.
All counting happens on the loop's thread, so nothing here needs a lock.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

from ...tasks.django_connections import close_stale_connections
from ...tasks.middleware import without_exit

logger: Final = logging.getLogger("holdfast.worker")

_PAUSE_WITHOUT_THREADS: Final = 1.0


class ThreadTicket:
    """One submitted call. `future` completes on the loop; cancelling it skips the call only if it has not begun."""

    __slots__ = ("_abandoned", "_args", "_context", "_error", "_fn", "_over", "_result", "_zombie", "future", "started")

    def __init__(self, future: asyncio.Future[Any], fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.future = future
        self.started = False
        self._fn = fn
        self._args = args
        self._context = contextvars.copy_context()
        self._abandoned = False
        self._zombie = False
        self._over = False
        self._result: Any = None
        self._error: BaseException | None = None

    def _run(self) -> None:
        self.started = True
        # After the line above: `abandon` writes and reads in the opposite order, so one of the two sees the other.
        if self._abandoned or self.future.cancelled():
            return
        close_stale_connections()
        try:
            self._result = self._context.run(self._fn, *self._args)
        except BaseException as error:
            self._error = error
        close_stale_connections()

    def _settle(self) -> None:
        if self.future.done():
            return
        if self._error is None:
            self.future.set_result(self._result)
        else:
            self.future.set_exception(without_exit(self._error))


class ThreadPool:
    """Up to `size` threads, started when needed. Create it, submit and close on the loop's thread."""

    def __init__(self, size: int, *, max_zombies: int = 8, name: str = "holdfast-thread") -> None:
        if size < 1 or max_zombies < 0:
            raise ValueError(f"a pool needs a positive size and no negative cap, not {size} and {max_zombies}")
        self._size = size
        self._max_zombies = max_zombies
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._queue = _TicketQueue()
        self._mail = _Mailbox(self._loop, self._receive)
        self._open = 0
        """Calls that wait or run, without those given up."""
        self._threads = 0
        """Threads that serve the queue, without the zombies."""
        self._zombies = 0
        self._made = 0
        self._is_short = False
        """True if the system refused a thread; retried soon."""
        self._closed = False

    def submit(self, fn: Callable[..., Any], *args: Any) -> ThreadTicket:
        """Run `fn(*args)` on a thread, in a copy of the caller's context. RuntimeError if no thread can be started."""
        if self._closed:
            raise RuntimeError("the thread pool is closed")
        ticket = ThreadTicket(self._loop.create_future(), fn, args)
        if self._open >= self._threads < self._capacity:
            self._add_thread_or_queue()
        self._open += 1
        self._queue.add(ticket)
        return ticket

    def abandon(self, ticket: ThreadTicket) -> bool:
        """Give a call up and cancel its future. True if it keeps running as a zombie, False if not begun or done."""
        if ticket._abandoned or ticket._over:
            return ticket._zombie
        ticket._abandoned = True
        ticket.future.cancel()
        if ticket.started:
            self._make_zombie(ticket)
        return ticket._zombie

    @property
    def zombies(self) -> int:
        """Threads whose call was given up and still runs."""
        return self._zombies

    @property
    def exhausted(self) -> bool:
        """True if more threads hang than the pool may replace: drain and restart."""
        return self._zombies > self._max_zombies

    @property
    def threads(self) -> int:
        """Threads that serve now, busy or idle."""
        return self._threads

    def close(self) -> None:
        """Refuse new calls, cancel those that have not begun, end the idle threads. Does not wait."""
        self._closed = True
        while (ticket := self._queue.take()) is not None:
            ticket.future.cancel()
        for _ in range(self._threads):
            self._queue.dismiss()
        self._threads = 0

    @property
    def _capacity(self) -> int:
        return self._size - max(0, self._zombies - self._max_zombies)

    def _add_thread(self) -> None:
        # Daemon threads: the interpreter must be able to exit while a call hangs.
        threading.Thread(
            target=_serve, args=(self._queue, self._mail), name=f"{self._name}-{self._made + 1}", daemon=True
        ).start()
        # Counted only now: starting a thread may fail.
        self._threads += 1
        self._made += 1

    def _add_thread_or_queue(self) -> None:
        try:
            self._add_thread()
        except RuntimeError as error:
            if not self._threads:
                raise
            self._add_later(error)

    def _add_missing(self) -> None:
        """Start the threads that open calls wait for; retry soon those that cannot be started."""
        try:
            while self._open > self._threads < self._capacity and not self._closed:
                self._add_thread()
        except RuntimeError as error:
            self._add_later(error)

    def _add_later(self, error: RuntimeError) -> None:
        if not self._is_short:
            self._is_short = True
            logger.error("no thread could be added to the %d that serve (%s); calls wait", self._threads, error)
            self._loop.call_later(_PAUSE_WITHOUT_THREADS, self._try_again)

    def _try_again(self) -> None:
        self._is_short = False
        self._add_missing()

    def _make_zombie(self, ticket: ThreadTicket) -> None:
        ticket._zombie = True
        self._zombies += 1
        self._open -= 1
        self._threads -= 1
        self._add_missing()

    def _receive(self, ticket: ThreadTicket) -> None:
        if ticket._zombie:
            self._revive(ticket)
        else:
            self._open -= 1
        ticket._over = True
        ticket._settle()

    def _revive(self, ticket: ThreadTicket) -> None:
        """Take a zombie's thread back after its call returned, or end it if it was replaced."""
        ticket._zombie = False
        self._zombies -= 1
        if self._closed or self._threads >= self._capacity:
            self._queue.dismiss()
        else:
            self._threads += 1


class _TicketQueue:
    """Tickets that wait for a thread. One thread is woken at a time, and wakes the next before it runs its ticket.

    So if calls are short, a few threads run them all and the others stay asleep. Waking one for each ticket, most of
    which found nothing to do, took half of the time of short calls.
    """

    __slots__ = ("_calls", "_is_calling", "_tickets")

    def __init__(self) -> None:
        self._tickets: deque[ThreadTicket] = deque()
        self._calls: SimpleQueue[bool] = SimpleQueue()
        self._is_calling = False

    def add(self, ticket: ThreadTicket) -> None:
        self._tickets.append(ticket)
        self._call()

    def take(self) -> ThreadTicket | None:
        """Take the oldest ticket, on any thread; None if there is none."""
        try:
            return self._tickets.popleft()
        except IndexError:
            return None

    def dismiss(self) -> None:
        """End one thread."""
        self._calls.put(False)

    def await_call(self) -> bool:
        """Sleep until woken; False if the thread should end."""
        called = self._calls.get()
        # Cleared before the queue is read: a ticket added while it was set is in the queue already.
        self._is_calling = False
        return called

    def take_and_call(self) -> ThreadTicket | None:
        """Take the oldest ticket, and wake a thread for the next."""
        ticket = self.take()
        if self._tickets:
            self._call()
        return ticket

    def _call(self) -> None:
        if not self._is_calling:
            self._is_calling = True
            self._calls.put(True)


class _Mailbox:
    """Passes finished tickets to the loop, many per wake-up, since each wake-up is a write to a socket."""

    __slots__ = ("_done", "_loop", "_posted", "_receive")

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Callable[[ThreadTicket], None]) -> None:
        self._loop = loop
        self._receive = receive
        self._done: deque[ThreadTicket] = deque()
        self._posted = False

    def post(self, ticket: ThreadTicket) -> bool:
        """Pass a ticket to the loop, from any thread. False if the loop is closed."""
        self._done.append(ticket)
        if self._posted:
            return True
        self._posted = True
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            return False
        return True

    def _deliver(self) -> None:
        # Cleared before the deque is emptied: a ticket posted while it was set is in the deque already.
        self._posted = False
        done = self._done
        while done:
            self._receive(done.popleft())


def _serve(queue: _TicketQueue, mail: _Mailbox) -> None:
    while queue.await_call():
        while (ticket := queue.take_and_call()) is not None:
            ticket._run()
            if not mail.post(ticket):
                return
            # An idle thread must not keep the last call's arguments alive.
            del ticket
