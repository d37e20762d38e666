"""Who listens in this process. A ring while nobody waits is kept as a permit for the next wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from typing import Any


class Ear:
    """One party's ear: `wait` from a thread, `await_ring` from a task."""

    def __init__(self, topics: Collection[str], forget: Callable[[Ear], None]) -> None:
        self.topics = frozenset(topics)
        self._forget = forget
        self._rung = threading.Event()
        self._mutex = threading.Lock()
        self._sleepers: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}

    def wait(self, timeout: float) -> bool:
        if not self._rung.wait(max(0.0, timeout)):
            return False
        self._rung.clear()
        return True

    async def await_ring(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        sleeper = loop.create_future()
        with self._mutex:
            if not self._rung.is_set():
                self._sleepers[sleeper] = loop
        try:
            if not self._rung.is_set():
                async with asyncio.timeout(max(0.0, timeout)):
                    await sleeper
        except TimeoutError:
            pass
        finally:
            with self._mutex:
                self._sleepers.pop(sleeper, None)
        rang = self._rung.is_set()
        self._rung.clear()
        return rang

    def ring(self) -> None:
        with self._mutex:
            self._rung.set()
            sleepers, self._sleepers = self._sleepers, {}
        for sleeper, loop in sleepers.items():
            _call(loop, _wake, sleeper)

    def close(self) -> None:
        self._forget(self)


class Ears:
    """Every ear of this process on one store."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._ears: list[Ear] = []

    def listen(self, topics: Collection[str]) -> Ear:
        ear = Ear(topics, self._forget)
        with self._mutex:
            self._ears.append(ear)
        return ear

    def ring(self, topics: Collection[str]) -> None:
        for ear in list(self._ears):
            if not ear.topics.isdisjoint(topics):
                ear.ring()

    def ring_all(self) -> None:
        for ear in list(self._ears):
            ear.ring()

    def _forget(self, ear: Ear) -> None:
        with self._mutex:
            if ear in self._ears:
                self._ears.remove(ear)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *args: Any) -> None:
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        # The loop was closed while a task of it slept: nobody is left to wake.
        return


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
