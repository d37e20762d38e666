"""The audit of refused requests and of payloads that were read: a caller's first one by one, further ones in sum."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ...app import App
from ...errors import QueueFull, StorageError
from ..guard.throttle import Throttle

logger: Final = logging.getLogger("holdfast.web")

REFUSED: Final = "access.refused"
SUM_SECONDS: Final = 60.0
"""Seconds for which requests are counted before their sum is written."""
_ONE_BY_ONE: Final = 20
_PER_SECOND: Final = 1 / 30


class AccessLog:
    """What callers of one site tried and read. None of them must make the store write for each request."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._single = Throttle(burst=_ONE_BY_ONE, per_second=_PER_SECOND)
        self._more: dict[tuple[str, str], tuple[int, str]] = {}
        """By actor and action: the number of requests that are not in the audit yet, and the last of them."""
        self._writing: asyncio.Task[None] | None = None

    async def note_refusal(self, actor: str, request: str) -> None:
        """Audit a refused request, or count it."""
        if self._counts(actor, REFUSED, request):
            await self._app.tokens.anote(actor, REFUSED, request)

    async def note_read(self, actor: str, kind: str, target: str, request: str) -> None:
        """Audit the reading of a payload, or count it. A store that is full or busy can still be read."""
        action = f"{kind}.read"
        if self._counts(actor, action, request):
            await self._write(actor, action, target, request)

    def _counts(self, actor: str, action: str, request: str) -> bool:
        """Return True if this request is to be audited by itself."""
        if not self._single.take(f"{action} {actor}"):
            return True
        count, _ = self._more.get((actor, action), (0, ""))
        self._more[actor, action] = (count + 1, request)
        loop = asyncio.get_running_loop()
        if self._writing is None or self._writing.done() or self._writing.get_loop() is not loop:
            self._writing = loop.create_task(self._write_sums(), name="holdfast access log")
        return False

    async def _write_sums(self) -> None:
        await asyncio.sleep(SUM_SECONDS)
        while self._more:
            actor, action = next(iter(self._more))
            count, last = self._more.pop((actor, action))
            await self._write(actor, action, "more", f"{count} more within {SUM_SECONDS:g} s; the last was {last}")

    async def _write(self, actor: str, action: str, target: str, reason: str) -> None:
        try:
            await self._app.tokens.anote(actor, action, target, reason=reason)
        except (StorageError, QueueFull) as error:
            logger.warning("the audit lacks %s by %s of %s (%s): %s", action, actor, target, reason, error)
