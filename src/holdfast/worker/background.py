"""What a worker does until it leaves, each part a task. A part that dies must not die unnoticed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ..errors import SchemaMismatch

logger: Final = logging.getLogger("holdfast.worker")

_PAUSE_AFTER_ERROR: Final = 1.0


class BackgroundTasks:
    """Make and use it on the loop's thread."""

    def __init__(self) -> None:
        self.is_broken = False
        """Whether a part has died: the worker should be stopped and started afresh."""
        self.on_broken: Callable[[], object] = lambda: None
        self._under_way: list[asyncio.Future[None]] = []

    def send(self, *works: Awaitable[None]) -> list[asyncio.Future[None]]:
        """Begin them."""
        sent: list[asyncio.Future[None]] = [asyncio.ensure_future(work) for work in works]
        for errand in sent:
            errand.add_done_callback(self._returned)
        self._under_way += sent
        return sent

    def cancel(self) -> None:
        for errand in self._under_way:
            errand.cancel()

    async def until_over(self) -> None:
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _returned(self, errand: asyncio.Future[None]) -> None:
        if errand.cancelled() or (error := errand.exception()) is None:
            return
        # The heartbeat goes on, and hides from everybody else that this part is done no more.
        logger.critical("a part of the worker has died; it has to be started afresh", exc_info=error)
        self.is_broken = True
        self.on_broken()


async def until_done(work: Callable[[], Awaitable[None]]) -> None:
    """Try again whatever fails, but for a schema that is not ours."""
    while True:
        try:
            return await work()
        except SchemaMismatch:
            raise
        except Exception as error:
            logger.error("could not go on yet (%s: %s); trying again", type(error).__name__, error)
            await asyncio.sleep(_PAUSE_AFTER_ERROR)
