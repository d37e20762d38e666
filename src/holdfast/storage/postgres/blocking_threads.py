"""Threads that make blocking database calls for the tasks of an event loop.

A transaction is several round trips. Awaited one by one, each runs the loop's machinery twice: six of them took 450 µs
of the processor and 1.1 ms, where a thread takes 170 µs and 0.26 ms, including the switch there and back.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeAlias, TypeVar

from ..daemons import start_daemon
from .pool import closed_error, exhausted_error

T = TypeVar("T")

_Call: TypeAlias = "tuple[Callable[[], Any], asyncio.Future[Any]]"
_Inbox: TypeAlias = "SimpleQueue[_Call | None]"


class BlockingThreads:
    """Up to `size` threads for the tasks of one event loop, started when needed. Only that loop's thread calls it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, size: int, patience: float) -> None:
        self._loop = loop
        self._size = size
        self._patience = patience
        self._made: Final[list[_Inbox]] = []
        # The last that became free is used first: its thread and its connection are warm.
        self._free: list[_Inbox] = []
        self._waiting: deque[asyncio.Future[_Inbox]] = deque()
        self._closed = False
        # A call queued after the stop marker would never be answered.
        self._closing = threading.Lock()

    async def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns or raises on a thread. If the caller is cancelled, it still runs to its end."""
        inbox = self._free.pop() if self._free else await self._another()
        answer: asyncio.Future[T] = self._loop.create_future()
        with self._closing:
            if self._closed:
                raise closed_error()
            inbox.put((call, answer))
        return await answer

    def close(self) -> None:
        """Stop each thread after its current call. From any thread."""
        with self._closing:
            self._closed = True
            for inbox in self._made:
                inbox.put(None)

    async def _another(self) -> _Inbox:
        if self._closed:
            raise closed_error()
        if len(self._made) < self._size:
            return self._start_thread()
        slot: asyncio.Future[_Inbox] = self._loop.create_future()
        self._waiting.append(slot)
        try:
            async with asyncio.timeout(self._patience):
                return await slot
        except BaseException as error:
            if slot.done() and not slot.cancelled():
                self._pass_on(slot.result())  # it came too late for this caller
            if isinstance(error, TimeoutError):
                raise exhausted_error(self._size) from None
            raise

    def _start_thread(self) -> _Inbox:
        inbox: _Inbox = SimpleQueue()
        with self._closing:
            if self._closed:
                raise closed_error()
            start_daemon("holdfast-store", self._serve, inbox)
            self._made.append(inbox)
        return inbox

    def _serve(self, inbox: _Inbox) -> None:
        while item := inbox.get():
            call, answer = item
            value: Any = None
            error: BaseException | None = None
            try:
                value = call()
            except BaseException as raised:
                error = raised
            try:
                self._loop.call_soon_threadsafe(self._finish, inbox, answer, value, error)
            except RuntimeError:
                return  # the loop is closed: no task awaits any more
            del item, call, answer, value, error

    def _finish(self, inbox: _Inbox, answer: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        """Answer the call and free its thread. Runs on the loop's thread."""
        self._pass_on(inbox)
        if answer.done():
            return  # cancelled
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    def _pass_on(self, inbox: _Inbox) -> None:
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(inbox)
                return
        self._free.append(inbox)
