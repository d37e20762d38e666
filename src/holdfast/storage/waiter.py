"""One caller's work in the group commit, for blocking and async callers."""

from __future__ import annotations

import asyncio
import copy
from _thread import allocate_lock
from collections.abc import Iterable
from time import monotonic
from typing import Any, Generic, Never, TypeVar

from msgspec import Struct, field

W = TypeVar("W")


class Waiter(Struct, Generic[W], eq=False):
    """Work, and its outcome once there is one. Only the leader settles it, and only after the commit."""

    work: W
    weight: int
    since: float = field(default_factory=monotonic)
    value: Any = None
    error: BaseException | None = None
    settled: bool = False
    withdrawn: bool = False

    def succeed(self, value: object) -> None:
        self.value = value
        self.settled = True

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.settled = True

    def raise_error(self) -> Never:
        assert self.error is not None
        try:
            raise self.error
        finally:
            self.error = None  # its traceback names this frame, which names this waiter


class BlockingWaiter(Waiter[W], eq=False):
    """A thread that waits. It may be woken because its work is settled, or because it should lead."""

    gate: Any = field(default_factory=allocate_lock)
    """The thread closes it before others know the waiter."""

    def pause(self, timeout: float) -> bool:
        """Wait at the gate; False where it was not opened in time."""
        opened: bool = self.gate.acquire(timeout=timeout)
        return opened

    def wake(self) -> None:
        try:
            self.gate.release()
        except RuntimeError:
            return  # woken already, and has not checked yet


class LoopWaiter(Waiter[W], eq=False, kw_only=True):
    """A task of an event loop that awaits."""

    future: asyncio.Future[Any]

    def resolve(self) -> None:
        """Set the result. Runs on the loop's own thread."""
        if self.future.done():
            return  # cancelled; the work may have committed all the same
        if self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)


def deliver(waiters: Iterable[Waiter[W]]) -> None:
    """Hand every caller its result. One call into each event loop, however many of its tasks wait. May be repeated."""
    loops: dict[asyncio.AbstractEventLoop, list[LoopWaiter[W]]] = {}
    for waiter in waiters:
        if isinstance(waiter, BlockingWaiter):
            waiter.wake()
        elif isinstance(waiter, LoopWaiter):
            loops.setdefault(waiter.future.get_loop(), []).append(waiter)
    for loop, those in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, those)
        except RuntimeError:
            continue  # the loop is closed: no task awaits any more


def own_copy(error: Exception) -> Exception:
    """Copy an error for one of several callers: a shared instance would mix their tracebacks."""
    try:
        twin = copy.copy(error)
    except Exception:  # an exception class that cannot be rebuilt from its arguments
        return error
    twin.__cause__ = error.__cause__ or error
    return twin


def _resolve(waiters: list[LoopWaiter[W]]) -> None:
    for waiter in waiters:
        waiter.resolve()
