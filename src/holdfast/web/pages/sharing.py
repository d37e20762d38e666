"""What every reader of a page asks for is read once within some seconds, and given to all of them."""

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
class _Look(Generic[T]):
    began: float
    """By the monotonic clock."""
    task: asyncio.Task[T]


class SharedLook(Generic[T]):
    """Looks at each app by a key, which are good for so many seconds from their beginning."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._looks: WeakKeyDictionary[App, dict[Hashable, _Look[T]]] = WeakKeyDictionary()

    async def at(self, app: App, key: Hashable, look: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The last one, or one that is under way, or a new one."""
        looks = self._looks.setdefault(app, {})
        found = looks.get(key)
        if found is None or not self._is_good(found):
            found = looks[key] = _Look(SYSTEM_CLOCK.monotonic(), asyncio.create_task(look()))
        # One who goes away does not take the look from the others.
        return await asyncio.shield(found.task)

    def _is_good(self, look: _Look[T]) -> bool:
        if look.task.get_loop() is not asyncio.get_running_loop():
            return False
        if look.task.done() and (look.task.cancelled() or look.task.exception() is not None):
            return False
        return not look.task.done() or SYSTEM_CLOCK.monotonic() - look.began < self._seconds
