"""Runs jobs in child processes, which can be killed and whose death affects no other job.

Children are started as new programs, never forked, reused for further jobs, and never outlive this process: the kernel
kills them with it, they end when their channel closes, and a guard kills what they started.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import sys
from collections import deque
from typing import Any

from .child_process import ChildDied, ChildProcess, ChildTicket, MayBegin
from .messages import CancelOrder, RunOrder, frame
from .orphan_guard import OrphanGuard

__all__ = ["ChildDied", "ChildPool", "ChildTicket", "importable"]


class ChildPool:
    """Up to `size` children, started when needed. Use it on the loop's thread, which must outlive them."""

    def __init__(self, size: int, *, python: str = sys.executable) -> None:
        if size < 1:
            raise ValueError(f"a pool needs a positive size, not {size}")
        self._size = size
        self._python = python
        self._guard = OrphanGuard(python)
        self._children: set[ChildProcess] = set()
        self._idle: list[ChildProcess] = []
        self._waiting: deque[ChildTicket] = deque()
        self._serials = itertools.count(1)
        self._closed = False

    def submit(
        self, module: str, qualname: str, header: dict[str, Any], payload: str, may_begin: MayBegin | None = None
    ) -> ChildTicket:
        """Run a job by the task `module:qualname` in a child. Cancelling its future stops nothing; `kill` does.

        `may_begin` is called when the handler is ready to start; if it returns False, the outcome is `cancelled`.
        """
        if self._closed:
            raise RuntimeError("the pool of child processes is closed")
        run = RunOrder(next(self._serials), module, qualname, header, payload)
        ticket = ChildTicket(asyncio.get_running_loop().create_future(), run, may_begin)
        self._waiting.append(ticket)
        self._assign()
        return ticket

    def cancel(self, ticket: ChildTicket) -> None:
        """Ask a job to stop: its handler sees the flag, an async one is cancelled. A waiting job is not run."""
        if ticket._child is not None:
            ticket._child.link.send(frame(CancelOrder(ticket.serial)))
        else:
            ticket.future.cancel()

    def kill(self, ticket: ChildTicket) -> bool:
        """End a job now, with all the processes it started. False if it had not begun, or was done."""
        child = ticket._child
        if child is None:
            ticket.future.cancel()
            return False
        if child.ticket is not ticket:
            return False
        child.kill()
        return True

    def end(self, ticket: ChildTicket) -> None:
        """End a job by an exception in its handler, which closes its resources; kill it if that takes too long."""
        child = ticket._child
        if child is None:
            ticket.future.cancel()
        elif child.ticket is ticket:
            child.end(ticket)

    @property
    def children(self) -> int:
        """Children that live now, busy or idle."""
        return len(self._children)

    async def close(self, grace: float = 2.0) -> None:
        """Kill the busy children, dismiss the idle ones, and wait until all are gone."""
        self._closed = True
        for ticket in self._waiting:
            ticket.future.cancel()
        ends = [child.ended.wait() for child in self._children]
        for child in list(self._children):
            child.dismiss()
        try:
            async with asyncio.timeout(grace):
                await asyncio.gather(*ends)
        except TimeoutError:
            await self._kill_the_rest()
        await asyncio.to_thread(self._guard.close)

    async def _kill_the_rest(self) -> None:
        rest = list(self._children)
        for child in rest:
            child.kill()
        await asyncio.gather(*(child.ended.wait() for child in rest))

    def _assign(self) -> None:
        while self._waiting and not self._closed:
            if self._waiting[0].future.cancelled():
                self._waiting.popleft()
            elif self._idle:
                self._idle.pop().give(self._waiting.popleft())
            elif len(self._children) < self._size:
                self._start(self._waiting.popleft())
            else:
                return

    def _start(self, ticket: ChildTicket) -> None:
        try:
            child = ChildProcess(self._python, self._guard, on_free=self._free, on_end=self._forget)
        except OSError as error:
            ticket.future.set_exception(error)
            return
        self._children.add(child)
        child.give(ticket)

    def _free(self, child: ChildProcess) -> None:
        if self._closed:
            child.dismiss()
        else:
            self._idle.append(child)
            self._assign()

    def _forget(self, child: ChildProcess, unbegun: ChildTicket | None) -> None:
        self._children.discard(child)
        if child in self._idle:
            self._idle.remove(child)
        if unbegun is not None and not self._closed:
            self._waiting.appendleft(unbegun)
        self._assign()


def importable(module: str, qualname: str) -> bool:
    """Return True if a child can import that: not from a program run as `__main__`, not from inside a function."""
    if module == "__main__" or "<" in qualname or not qualname:
        return False
    loaded = sys.modules.get(module)
    if loaded is not None:
        return loaded.__spec__ is not None
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
