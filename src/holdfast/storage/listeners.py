"""Listeners of this process. A wake-up that comes while none waits is kept as a permit for the next wait."""

from __future__ import annotations

import asyncio
import threading
from _thread import allocate_lock
from collections.abc import Callable, Collection
from typing import Any


class Listener:
    """One subscriber: `wait` from a thread, `await_ring` from a task. Each consumes the permit of a wake-up."""

    def __init__(self, topics: Collection[str], forget: Callable[[Listener], None]) -> None:
        self.topics = frozenset(topics)
        self._forget = forget
        self._permit = False
        self.renew()

    def renew(self) -> None:
        """Renew after a fork: the lock may be held, and the waiting threads exist only in the parent."""
        # Re-entrant, because a signal handler may notify while its thread is about to wait.
        self._lock = threading.RLock()
        self._wakers: list[Callable[[], Any]] = []

    def wait(self, timeout: float) -> bool:
        gate = allocate_lock()
        gate.acquire()
        if self._take_or_register(gate.release):
            return True
        try:
            gate.acquire(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX)))
        finally:
            self._withdraw(gate.release)
        return self._take()

    async def await_ring(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(_settle, woken)
            except RuntimeError:
                return  # the loop is closed: no task awaits any more

        if self._take_or_register(wake):
            return True
        # Not `asyncio.wait`: it takes two more iterations of the loop to return.
        alarm = loop.call_later(max(0.0, timeout), _settle, woken)
        try:
            await woken
        finally:
            alarm.cancel()
            self._withdraw(wake)
        return self._take()

    def notify(self) -> None:
        with self._lock:
            self._permit = True
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def close(self) -> None:
        self._forget(self)
        self.notify()  # end its waits

    def _take_or_register(self, wake: Callable[[], Any]) -> bool:
        with self._lock:
            if self._permit:
                self._permit = False
                return True
            self._wakers.append(wake)
            return False

    def _withdraw(self, wake: Callable[[], Any]) -> None:
        with self._lock:
            if wake in self._wakers:
                self._wakers.remove(wake)

    def _take(self) -> bool:
        with self._lock:
            rang, self._permit = self._permit, False
            return rang


class Listeners:
    """Every listener of this process on one store."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.RLock()

    def renew(self) -> None:
        """Renew after a fork."""
        self._lock = threading.RLock()
        for listener in self._listeners:
            listener.renew()

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def listen(self, topics: Collection[str]) -> Listener:
        listener = Listener(topics, self._forget)
        with self._lock:
            self._listeners = (*self._listeners, listener)
        return listener

    def notify(self, topics: Collection[str]) -> None:
        for listener in self._listeners:
            if not listener.topics.isdisjoint(topics):
                listener.notify()

    def relax(self, seconds: float) -> None:
        """Do nothing: there is no connection to keep."""

    def notify_if(self, is_notified: Callable[[str], bool]) -> None:
        for listener in self._listeners:
            if any(map(is_notified, listener.topics)):
                listener.notify()

    def notify_all(self) -> None:
        for listener in self._listeners:
            listener.notify()

    def _forget(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)


def _settle(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
