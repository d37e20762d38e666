"""Wake-ups: within the process at once, from other connections through a watch on the log.

A ring is kept for a listener that is not waiting. What another process commits carries no topic, so it rings for all.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import allocate_lock
from collections.abc import Callable, Collection
from typing import Any

from ..forking import renew_after_fork
from .watch import Watch


class SqliteBell:
    """The process's listeners."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._ears: tuple[Ear, ...] = ()
        self._lock = threading.RLock()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self._lock = threading.RLock()
        for ear in self._ears:
            ear.renew()

    @property
    def heard(self) -> bool:
        """Does anybody listen?"""
        return bool(self._ears)

    def listen(self, topics: Collection[str]) -> Ear:
        ear = Ear(frozenset(topics), self._watch, self._forget)
        with self._lock:
            self._ears = (*self._ears, ear)
        return ear

    def ring(self, topics: Collection[str]) -> None:
        for ear in self._ears:
            if not ear.topics.isdisjoint(topics):
                ear.ring()

    def ring_all(self) -> None:
        for ear in self._ears:
            ear.ring()

    def _forget(self, ear: Ear) -> None:
        with self._lock:
            self._ears = tuple(other for other in self._ears if other is not ear)


class Ear:
    """One party that listens. `wait` and `await_ring` consume the permit that a ring leaves."""

    def __init__(self, topics: frozenset[str], watch: Watch, forget: Callable[[Ear], None]) -> None:
        self.topics = topics
        self._watch = watch
        self._forget = forget
        self._permit = False
        self.renew()

    def renew(self) -> None:
        # Re-entrant, because a signal handler may ring while its thread is about to wait.
        self._lock = threading.RLock()
        self._sleepers: list[Callable[[], Any]] = []

    def ring(self) -> None:
        with self._lock:
            self._permit = True
            sleepers, self._sleepers = self._sleepers, []
        for wake in sleepers:
            wake()

    def wait(self, timeout: float) -> bool:
        gate = allocate_lock()
        gate.acquire()
        if self._settle_for(gate.release):
            return True
        try:
            with self._watch.attended():
                gate.acquire(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX)))
        finally:
            self._leave(gate.release)
        return self._take()

    async def await_ring(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        wake = _waker(loop, woken)
        if self._settle_for(wake):
            return True
        try:
            with self._watch.attended():
                await asyncio.wait((woken,), timeout=max(0.0, timeout))
        finally:
            self._leave(wake)
        return self._take()

    def close(self) -> None:
        self._forget(self)
        self.ring()  # whoever waits on it goes home

    def _settle_for(self, wake: Callable[[], Any]) -> bool:
        """Take a permit that is there, or leave word how to be woken."""
        with self._lock:
            if self._permit:
                self._permit = False
                return True
            self._sleepers.append(wake)
            return False

    def _leave(self, wake: Callable[[], Any]) -> None:
        with self._lock:
            if wake in self._sleepers:
                self._sleepers.remove(wake)

    def _take(self) -> bool:
        with self._lock:
            rang, self._permit = self._permit, False
            return rang


def _waker(loop: asyncio.AbstractEventLoop, woken: asyncio.Future[None]) -> Callable[[], None]:
    def settle() -> None:
        if not woken.done():
            woken.set_result(None)

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:
            return  # the loop is closed: nobody awaits any more

    return wake
