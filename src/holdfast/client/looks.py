"""Readers of one stream in one event loop who are at the same place share a look at the store.

Most are: all are woken by the same frame, and are at the end. Ten readers then cost no more than one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeAlias

from ..model.stream import Stretch

_Look: TypeAlias = "Callable[[], Coroutine[Any, Any, Stretch]]"


class SharedLooks:
    """Looks that are about to begin."""

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[Stretch]] = {}

    async def look(self, place: Hashable, look: _Look) -> Stretch:
        """Join a look that has not begun: one that has may be too old to show what woke this reader."""
        key = (asyncio.get_running_loop(), place)
        task = self._next.get(key)
        if task is None or task.done():
            task = self._next[key] = asyncio.create_task(self._begin(key, look))
        # One reader that goes away does not take the look from the others.
        return await asyncio.shield(task)

    async def _begin(self, key: Hashable, look: _Look) -> Stretch:
        self._next.pop(key, None)
        return await look()
