"""Runs searches on threads: over large payloads they would hold up every other request of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from ...client.jobs import Jobs
from ..wire.failures import Refused

T = TypeVar("T")

AT_ONCE: Final = 2
"""Searches that run at the same time, for one event loop. More of them would only share the same processor."""
WAITING: Final = 32
"""Searches that may wait for these."""


class _Lane:
    def __init__(self) -> None:
        self.free = asyncio.Semaphore(AT_ONCE)
        self.waiting = 0


_LANES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Lane]] = WeakKeyDictionary()


async def aside(jobs: Jobs, call: Callable[..., T], *args: Any, **named: Any) -> T:
    """Return what a blocking call that reads these jobs returns. Refused if too many searches wait already."""
    lane = _LANES.setdefault(asyncio.get_running_loop(), _Lane())
    if lane.waiting >= WAITING:
        raise Refused(503, "too_many_searches", "too many searches are running; try again later", {"retry-after": "5"})
    lane.waiting += 1
    try:
        await lane.free.acquire()
    finally:
        lane.waiting -= 1
    try:
        # The store of a Django project's tests is on the connection of one thread.
        run: Any = getattr(jobs._store(), "aside", asyncio.to_thread)
        found: T = await run(call, *args, **named)
        return found
    finally:
        lane.free.release()
