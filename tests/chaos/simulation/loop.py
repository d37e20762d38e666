"""An event loop in which time is a number and order is a throw of dice: many nodes in one thread, each with its lanes.

A lane is a thread of a node. Within one, callbacks run in the order in which they were made ready, as asyncio promises;
which lane goes next is drawn. When nothing is ready, the clock jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

LANE: ContextVar[Lane] = ContextVar("LANE")
"""The lane that code runs in."""
_STEPS = 2_000_000


class Lane:
    """One thread of one node. Whatever is started in its context stays in it."""

    __slots__ = ("context", "is_dead", "node", "ready", "wakes_at")

    def __init__(self, node: Any) -> None:
        self.node = node
        self.ready: deque[asyncio.Handle] = deque()
        self.wakes_at = 0.0
        self.is_dead = False
        self.context: Context = copy_context()
        self.context.run(LANE.set, self)


class VirtualLoop(asyncio.AbstractEventLoop):
    """Runs until it is told that it is over."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._now = 0.0
        self._timers: list[tuple[float, int, Lane | None, asyncio.TimerHandle | None]] = []
        self._order = itertools.count()
        self._closed = False
        self._awake: list[Lane] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.mishaps: list[dict[str, Any]] = []
        """What nobody caught."""

    def lane(self, node: Any) -> Lane:
        return Lane(node)

    # -- what asyncio asks for

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        context = context or copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._put(context[LANE], handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """From another thread of the same node, to the one that runs its loop."""
        return self.call_soon(callback, *args, context=LANE.get().node.main.context.copy())

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = context or copy_context()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._order), context[LANE], handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    async def _inline(self, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return call(*args)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        """There are no threads: it is done at the next turn of the lane."""
        return self.create_task(self._inline(func, args))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closed:
            self.mishaps.append(context)

    default_exception_handler = call_exception_handler

    # -- time

    def rest(self, lane: Lane, until: float) -> None:
        """Let a lane stand still until then."""
        lane.wakes_at = max(lane.wakes_at, until)
        heapq.heappush(self._timers, (until, next(self._order), None, None))

    def kill(self, lane: Lane) -> None:
        """Nothing of it runs any more, and nothing is cleaned up."""
        lane.is_dead = True
        lane.ready.clear()

    def run(self, is_over: Callable[[], bool], until: float) -> bool:
        """True when it is over, False when the time is, or when there is nothing left to wait for."""
        asyncio._set_running_loop(self)
        try:
            for _ in range(_STEPS):
                if is_over():
                    return True
                if not self._step(until):
                    return False
        finally:
            asyncio._set_running_loop(None)
        raise AssertionError(f"nothing comes to an end after {_STEPS:,} steps, at {self._now:.3f} s")

    def close(self) -> None:
        """Unwind what is left. The nodes are dead by now: nothing that it does has an effect."""
        self._closed = True
        asyncio._set_running_loop(self)
        try:
            for task in tuple(self.tasks):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _unwind(task)
        finally:
            asyncio._set_running_loop(None)
        self._timers.clear()
        self._awake.clear()

    def _put(self, lane: Lane, handle: asyncio.Handle) -> None:
        if lane.is_dead or self._closed:
            return
        if not lane.ready:
            self._awake.append(lane)
        lane.ready.append(handle)

    def _step(self, until: float) -> bool:
        awake = self._awake = [lane for lane in self._awake if lane.ready]
        able = [lane for lane in awake if lane.wakes_at <= self._now]
        if able:
            self._run_burst(able[0] if len(able) == 1 else self._dice.choice(able))
            return True
        if not self._timers or self._timers[0][0] > until:
            self._now = max(self._now, until)
            return False
        self._now = max(self._now, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now:
            _, _, lane, handle = heapq.heappop(self._timers)
            if lane is not None and handle is not None and not handle.cancelled():
                self._put(lane, handle)
        return True

    def _run_burst(self, lane: Lane) -> None:
        """What is ready now, as one turn of a real loop would."""
        for _ in range(len(lane.ready)):
            if not lane.ready or lane.wakes_at > self._now:
                return
            handle = lane.ready.popleft()
            if not handle.cancelled():
                handle._run()


def _unwind(task: asyncio.Task[Any]) -> None:
    coro: Any = task.get_coro()
    for _ in range(10):
        try:
            coro.close()
        except BaseException:
            continue
        return
