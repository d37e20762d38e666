"""Objects that belong to one event loop: made there at first use, and closed with the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One object for each event loop that uses it."""

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._lock = threading.Lock()
        self._lives: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[T, AsyncGenerator[None]]] = WeakKeyDictionary()

    async def get(self) -> T:
        """Return the object of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if (found := self._lives.get(loop)) is not None:
                return found[0]
            thing = self._make()
            life = self._live(thing)
            self._lives[loop] = thing, life
        # A loop that ends closes the async generators that it has run: that ties the object to it.
        await anext(life)
        return thing

    async def drop(self) -> None:
        """Close the object of the running loop, if there is one."""
        with self._lock:
            found = self._lives.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found[1].aclose()

    async def _live(self, thing: T) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self._close(thing)
