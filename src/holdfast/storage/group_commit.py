"""Group commit: one writer, many callers; a caller that finds the writer idle commits for all that wait.

There are no timers: a batch is whatever arrived during the previous commit. Leadership is a plain lock held by a
`with` statement, which an interrupt cannot leave locked; wake-ups of the next leader are hints on top of it. Work that
left the queue is in `_flight` until it is settled, so that a leader interrupted at any instruction strands no caller.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeAlias, TypeVar

from ..errors import OutcomeUnknown, QueueFull, StorageUnavailable
from .daemons import start_daemon
from .forking import renew_after_fork
from .waiter import BlockingWaiter, LoopWaiter, Waiter, deliver, own_copy

W = TypeVar("W")

Commit: TypeAlias = Callable[[Sequence[Waiter[W]]], None]
"""Runs works in one transaction and settles them after its commit.

Those it returns without settling go first in the next batch; where it raises, they fail with its error.
"""

BATCH_WEIGHT: Final = 1_000
FULL_AFTER: Final = 1.0
"""Seconds a caller waits for room in the queue."""
_NAP: Final = 0.002
# A waiter checks for itself this often, in case the thread that should have woken it was interrupted.
_RECHECK: Final = 0.05

_log = logging.getLogger("holdfast.storage")


class Combiner(Generic[W]):
    """The combining lock. Safe from any thread and any event loop."""

    def __init__(self, commit: Commit[W], *, room: int = 10_000, on_results: Callable[[], None] = lambda: None) -> None:
        """`on_results` is called when the callers of a batch have their results, before the next one may begin."""
        self._commit = commit
        self._on_results = on_results
        self._room = room
        self._closed = False
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Start empty, with new locks and no helper: the parent's callers are not here."""
        self._turn = threading.Lock()
        self._leader = 0
        self._pending: deque[Waiter[W]] = deque()
        self._flight: list[Waiter[W]] = []
        self._crowd = 0
        self._starting = threading.Lock()
        self._helper: SimpleQueue[bool] | None = None
        self._summoned = False

    def run(self, work: W, weight: int = 1) -> Any:
        """Have `work` committed, alone or in a batch; lead if no other caller does. Blocks."""
        me = threading.get_ident()
        if self._leader == me:
            raise _reentry()
        if len(self._pending) >= self._room:
            self._wait_for_room()
        waiter = BlockingWaiter(work, weight)
        waiter.gate.acquire()
        try:
            self._pending.append(waiter)
            # Only the oldest leads: newcomers that took the free lock at once committed alone.
            if self._turn.locked() or (len(self._pending) > 1 and self._next() is not waiter):
                waiter.pause(_RECHECK)
            while not waiter.settled:
                if self._turn.locked():
                    waiter.pause(_RECHECK)
                    continue
                with self._turn:
                    # The first thing under the lock, before any call: a signal handler or finaliser that calls the
                    # store from here on is recognised, and never blocks on its own thread's lock.
                    self._leader = me
                    try:
                        self._lead(waiter)
                    finally:
                        self._leader = 0
                if self._pending:
                    self._hand_over()
        except BaseException:
            waiter.withdrawn = True
            self._hand_over()  # it may have been this one's turn to lead
            raise
        return waiter.value if waiter.error is None else waiter.raise_error()

    async def arun(self, work: W, weight: int = 1) -> Any:
        """The async version of `run`. A cancelled caller's work may still be committed."""
        if self._leader == threading.get_ident():
            raise _reentry()
        if len(self._pending) >= self._room:
            await self._await_room()
        waiter = LoopWaiter(work, weight, future=asyncio.get_running_loop().create_future())
        try:
            self._pending.append(waiter)
            if not self._summoned:
                self._summon()
            return await waiter.future
        except BaseException:
            waiter.withdrawn = True
            raise

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep every batch out, for work on the writer that is not a transaction of a caller."""
        me = threading.get_ident()
        if self._leader == me:
            raise _reentry()
        try:
            with self._turn:
                self._leader = me
                try:
                    yield
                finally:
                    self._leader = 0
        finally:
            self._hand_over()

    @property
    def idle(self) -> bool:
        return not self._turn.locked()

    @property
    def waiting(self) -> int:
        """Return how many wait to be committed now."""
        return len(self._pending)

    def close(self) -> None:
        """Refuse all waiting and later work."""
        self._closed = True
        with self.exclusive():
            self._lead()
        with self._starting:
            helper, self._helper = self._helper, None
        if helper is not None:
            helper.put(False)

    def _lead(self, waiter: Waiter[W] | None = None) -> None:
        """Commit one batch. The caller holds the lock."""
        if self._flight:
            self._deliver()  # left behind by a leader that was interrupted twice
        if waiter is not None and waiter.settled:
            return
        try:
            self._take_batch()
            self._commit_batch()
        finally:
            self._deliver()

    def _take_batch(self) -> None:
        # The callers of the last batch are awake but may not have run yet. Yielding to them once doubled the rate of 16
        # threads, whose batches had alternated between 16 and 1.
        if len(self._pending) < self._crowd:
            time.sleep(0)
        # Read, added to the flight, then removed, in this order: at no instruction is a waiter in neither.
        weight = 0
        while self._pending and weight < BATCH_WEIGHT:
            waiter = self._pending[0]
            if not (waiter.withdrawn or waiter.settled):
                if weight and weight + waiter.weight > BATCH_WEIGHT:
                    return
                self._flight.append(waiter)
                weight += waiter.weight
            self._pending.popleft()

    def _commit_batch(self) -> None:
        self._crowd = len(self._flight) if len(self._flight) > 1 else 0
        if not self._flight:
            return
        try:
            if self._closed:
                raise StorageUnavailable("the store is closed; open it again to write")
            self._commit(self._flight)
        except Exception as error:
            for waiter in self._flight:
                if not waiter.settled:
                    waiter.fail(own_copy(error))
            return
        if left := [waiter for waiter in self._flight if not waiter.settled]:
            self._pending.extendleft(reversed(left))
            self._flight = [waiter for waiter in self._flight if waiter.settled]

    def _deliver(self) -> None:
        if not self._flight:
            return
        for waiter in self._flight:
            if not waiter.settled:
                waiter.fail(OutcomeUnknown("the thread that committed this was interrupted; look, then repeat it"))
        deliver(self._flight)
        self._flight = []
        self._on_results()

    def _hand_over(self) -> None:
        """Wake the next leader. The helper of async callers needs no call: it drains the queue once summoned."""
        if self._pending and isinstance(head := self._next(), BlockingWaiter):
            head.wake()

    def _next(self) -> Waiter[W] | None:
        """Return the oldest that is not withdrawn. Only the next leader removes withdrawn ones."""
        try:
            for place in range(len(self._pending)):
                if not (waiter := self._pending[place]).withdrawn:
                    return waiter
        except IndexError:
            return None  # a leader took them meanwhile
        return None

    def _summon(self) -> None:
        self._summoned = True
        try:
            # Under the lock: a call that `close` overtakes would never be processed.
            with self._starting:
                (self._helper or self._start_helper()).put(True)
        except BaseException:
            self._summoned = False
            raise

    def _start_helper(self) -> SimpleQueue[bool]:
        calls: SimpleQueue[bool] = SimpleQueue()
        start_daemon("holdfast-writer", _help, weakref.ref(self), calls)
        weakref.finalize(self, calls.put, False).atexit = False
        self._helper = calls
        return calls

    def _drain(self) -> None:
        """Lead until nothing waits, and at least once: every async caller depends on the helper."""
        # Cleared before reading the queue, so that later callers summon again.
        self._summoned = False
        while True:
            with self.exclusive():
                self._lead()
            if not self._pending:
                return

    def _wait_for_room(self) -> None:
        deadline = 0.0
        while len(self._pending) >= self._room:
            deadline = self._still_full(deadline)
            time.sleep(_NAP)

    async def _await_room(self) -> None:
        deadline = 0.0
        while len(self._pending) >= self._room:
            deadline = self._still_full(deadline)
            await asyncio.sleep(_NAP)

    def _still_full(self, deadline: float) -> float:
        now = time.monotonic()
        if deadline and now >= deadline:
            raise QueueFull(f"{self._room:,} writes wait in this process; slow down, or repeat the call later")
        return deadline or now + FULL_AFTER


def _reentry() -> RuntimeError:
    return RuntimeError(
        "this thread is in the middle of a commit: an operation, a signal handler or a finaliser must not"
        " call its own store; do it after the call has returned"
    )


def _help(combiner: weakref.ref[Combiner[W]], calls: SimpleQueue[bool]) -> None:
    """Run the helper's thread: it leads for async callers, so that no commit ever depends on their event loop."""
    while calls.get():
        who = combiner()
        if who is None:
            return
        try:
            who._drain()
        except BaseException:
            _log.exception("an operation aborted a commit; its batch failed, later ones continue")
            if who._pending:
                calls.put(True)
        del who
