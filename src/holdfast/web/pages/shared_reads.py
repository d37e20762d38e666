"""Reads shared by all viewers of a page: one query serves every request within a few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from ...app import App
from ...clock import SYSTEM_CLOCK

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Read(Generic[T]):
    began: float
    """By the monotonic clock."""
    task: asyncio.Task[T]


class SharedRead(Generic[T]):
    """Caches reads per app and key; each is valid for some seconds from its start."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._looks: WeakKeyDictionary[App, dict[Hashable, _Read[T]]] = WeakKeyDictionary()

    async def at(self, app: App, key: Hashable, look: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the last read, or one in progress, or start a new one."""
        looks = self._looks.setdefault(app, {})
        found = looks.get(key)
        if found is None or not self._is_good(found):
            found = looks[key] = _Read(SYSTEM_CLOCK.monotonic(), asyncio.create_task(look()))
        # A request that is cancelled must not cancel the read for the others.
        return await asyncio.shield(found.task)

    def _is_good(self, look: _Read[T]) -> bool:
        if look.task.get_loop() is not asyncio.get_running_loop():
            return False
        if look.task.done() and (look.task.cancelled() or look.task.exception() is not None):
            return False
        return not look.task.done() or SYSTEM_CLOCK.monotonic() - look.began < self._seconds
