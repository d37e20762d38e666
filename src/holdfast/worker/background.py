"""Background tasks of a worker, which run until it stops. A crashed task is reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ..errors import SchemaMismatch

logger: Final = logging.getLogger("holdfast.worker")

_PAUSE_AFTER_ERROR: Final = 1.0


class BackgroundTasks:
    """Create and use it on the loop's thread."""

    def __init__(self) -> None:
        self.is_broken = False
        """True once a task has crashed: the worker must be restarted."""
        self.on_broken: Callable[[], object] = lambda: None
        self._under_way: list[asyncio.Future[None]] = []

    def send(self, *works: Awaitable[None]) -> list[asyncio.Future[None]]:
        """Start them."""
        sent: list[asyncio.Future[None]] = [asyncio.ensure_future(work) for work in works]
        for task in sent:
            task.add_done_callback(self._returned)
        self._under_way += sent
        return sent

    def cancel(self) -> None:
        for task in self._under_way:
            task.cancel()

    async def until_over(self) -> None:
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _returned(self, task: asyncio.Future[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        # The heartbeat continues, so other workers cannot see that this task no longer runs.
        logger.critical("a worker task crashed; restart the worker", exc_info=error)
        self.is_broken = True
        self.on_broken()


async def until_done(work: Callable[[], Awaitable[None]]) -> None:
    """Retry on every error except a schema mismatch."""
    while True:
        try:
            return await work()
        except SchemaMismatch:
            raise
        except Exception as error:
            logger.error("could not continue yet (%s: %s); trying again", type(error).__name__, error)
            await asyncio.sleep(_PAUSE_AFTER_ERROR)
