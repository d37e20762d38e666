"""Runs blocking callables on threads for the event loop, and lives with those that never return.

A thread cannot be stopped. A call that is given up keeps its thread as a zombie; the pool replaces up to
`max_zombies` of them, and is exhausted beyond that: its owner should drain and restart the process.
All counting happens on the loop's own thread, so nothing here needs a lock.
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

from ...tasks.connections import close_stale_connections
from ...tasks.middleware import without_exit

logger: Final = logging.getLogger("holdfast.worker")

_PAUSE_WITHOUT_THREADS: Final = 1.0


class ThreadTicket:
    """One submitted call. `future` answers on the loop; cancelling it skips the call only if it has not begun."""

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
    """Up to `size` threads, made when needed. Make it, submit and close on the loop's thread."""

    def __init__(self, size: int, *, max_zombies: int = 8, name: str = "holdfast-thread") -> None:
        if size < 1 or max_zombies < 0:
            raise ValueError(f"a pool needs a positive size and no negative cap, not {size} and {max_zombies}")
        self._size = size
        self._max_zombies = max_zombies
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._line = _Line()
        self._mail = _Mailbox(self._loop, self._receive)
        self._open = 0
        """Calls that wait or run, without those given up."""
        self._threads = 0
        """Threads that serve the queue, without the zombies."""
        self._zombies = 0
        self._made = 0
        self._is_short = False
        """Whether the machine refused a thread, and is asked again soon."""
        self._closed = False

    def submit(self, fn: Callable[..., Any], *args: Any) -> ThreadTicket:
        """Run `fn(*args)` on a thread, in a copy of the caller's context. RuntimeError where no thread can be had."""
        if self._closed:
            raise RuntimeError("the thread pool is closed")
        ticket = ThreadTicket(self._loop.create_future(), fn, args)
        if self._open >= self._threads < self._capacity:
            self._add_thread_or_queue()
        self._open += 1
        self._line.add(ticket)
        return ticket

    def abandon(self, ticket: ThreadTicket) -> bool:
        """Give a call up and cancel its future. True if it runs on as a zombie, False if it never will or is done."""
        if ticket._abandoned or ticket._over:
            return ticket._zombie
        ticket._abandoned = True
        ticket.future.cancel()
        if ticket.started:
            self._bury(ticket)
        return ticket._zombie

    @property
    def zombies(self) -> int:
        """Threads that run a call nobody waits for."""
        return self._zombies

    @property
    def exhausted(self) -> bool:
        """Whether more threads are lost than the pool may replace: drain and restart."""
        return self._zombies > self._max_zombies

    @property
    def threads(self) -> int:
        """Threads that serve now, busy or idle."""
        return self._threads

    def close(self) -> None:
        """Refuse new calls, cancel those that have not begun, let the idle threads end. Does not wait."""
        self._closed = True
        while (ticket := self._line.take()) is not None:
            ticket.future.cancel()
        for _ in range(self._threads):
            self._line.dismiss()
        self._threads = 0

    @property
    def _capacity(self) -> int:
        return self._size - max(0, self._zombies - self._max_zombies)

    def _add_thread(self) -> None:
        # Daemons: the interpreter must be able to end while a call hangs.
        threading.Thread(
            target=_serve, args=(self._line, self._mail), name=f"{self._name}-{self._made + 1}", daemon=True
        ).start()
        # Counted only now: a machine that is out of threads refuses to start one.
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
        """Make the threads that open calls wait for; those that cannot be had now, soon."""
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

    def _bury(self, ticket: ThreadTicket) -> None:
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
        """A zombie came back: its thread serves again, and is sent away where it was replaced."""
        ticket._zombie = False
        self._zombies -= 1
        if self._closed or self._threads >= self._capacity:
            self._line.dismiss()
        else:
            self._threads += 1


class _Line:
    """Tickets that wait for a thread. One sleeper at a time is called, and it calls the next before it runs its own.

    So where calls are short, a few threads do them all, and the others sleep on. To wake one for each ticket, most of
    which find nothing left to do, took half of the time of short calls.
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
        """The oldest, on any thread; None where there is none."""
        try:
            return self._tickets.popleft()
        except IndexError:
            return None

    def dismiss(self) -> None:
        """Send one thread away."""
        self._calls.put(False)

    def await_call(self) -> bool:
        """Sleep until called; False if sent away."""
        called = self._calls.get()
        # Lowered before the line is looked at: a ticket whose bringer still saw it raised is in the line already.
        self._is_calling = False
        return called

    def take_turn(self) -> ThreadTicket | None:
        """The oldest; whoever takes it sees to it that somebody comes for the next."""
        ticket = self.take()
        if self._tickets:
            self._call()
        return ticket

    def _call(self) -> None:
        if not self._is_calling:
            self._is_calling = True
            self._calls.put(True)


class _Mailbox:
    """Brings finished tickets to the loop, many by one wake-up, since each wake-up is a write to a socket."""

    __slots__ = ("_done", "_loop", "_posted", "_receive")

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Callable[[ThreadTicket], None]) -> None:
        self._loop = loop
        self._receive = receive
        self._done: deque[ThreadTicket] = deque()
        self._posted = False

    def post(self, ticket: ThreadTicket) -> bool:
        """Called on any thread. False where the loop is closed."""
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
        # Lowered before the box is emptied: a post that still saw it raised is in the box already.
        self._posted = False
        done = self._done
        while done:
            self._receive(done.popleft())


def _serve(line: _Line, mail: _Mailbox) -> None:
    while line.await_call():
        while (ticket := line.take_turn()) is not None:
            ticket._run()
            if not mail.post(ticket):
                return
            # An idle thread must not keep the last call's arguments alive.
            del ticket
