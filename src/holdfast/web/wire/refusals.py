"""The audit of refused requests: the first of a caller one by one, a flood of them in sum."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ...app import App
from ...errors import QueueFull, StorageError
from ..guard.throttle import Throttle

logger: Final = logging.getLogger("holdfast.web")

ACTION: Final = "access.refused"
SUM_SECONDS: Final = 60.0
"""Seconds for which the refusals of a caller are counted before their sum is written."""
_ONE_BY_ONE: Final = 20
_PER_SECOND: Final = 1 / 30


class Refusals:
    """Refused requests of one site. Whoever is refused must not make the store write for each request."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._single = Throttle(burst=_ONE_BY_ONE, per_second=_PER_SECOND)
        self._more: dict[str, tuple[int, str]] = {}
        """By actor: the number of its refusals that are not in the audit yet, and the last request."""
        self._writing: asyncio.Task[None] | None = None

    async def note(self, actor: str, request: str) -> None:
        """Audit one refused request, or count it."""
        if not self._single.take(actor):
            await self._app.tokens.anote(actor, ACTION, request)
            return
        count, _ = self._more.get(actor, (0, ""))
        self._more[actor] = (count + 1, request)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_later(), name="holdfast refusals")

    async def _write_later(self) -> None:
        await asyncio.sleep(SUM_SECONDS)
        while self._more:
            actor, (count, last) = next(iter(self._more.items()))
            del self._more[actor]
            said = f"{count} more requests were refused within {SUM_SECONDS:g} s; the last was {last}"
            try:
                await self._app.tokens.anote(actor, ACTION, "more", reason=said)
            except (StorageError, QueueFull) as error:
                logger.warning("the audit lacks a record of %s: %s (%s)", actor, said, error)
