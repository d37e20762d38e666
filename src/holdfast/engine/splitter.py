"""Splits the totals of queues over the workers, and says loudly when a queue has work and nobody to do it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ..storage.ops import totals
from ..storage.port import Op, Store

logger: Final = logging.getLogger("holdfast.engine")

# The same complaint again after so many looks.
_REPEAT: Final = 60


class Splitter:
    """One worker is enough; two would write the same shares."""

    def __init__(self, store: Store, leads: Callable[[], bool]) -> None:
        self._store = store
        self._leads = leads
        self._complaints: dict[str, int] = {}

    async def run_once(self) -> None:
        """Share out anew, and look for queues that nobody serves."""
        if not self._leads():
            return
        if await self._store.aread(Op(totals.totals)):
            await self._store.awrite(Op(totals.share_out))
        self._complain(await self._store.aread(Op(totals.unserved_queues)))

    def _complain(self, unserved: list[str]) -> None:
        self._complaints = {queue: self._complaints.get(queue, 0) + 1 for queue in unserved}
        for queue, times in self._complaints.items():
            # Not at the first look: its worker may be starting.
            if times % _REPEAT == 2:
                logger.error("queue %r has jobs and no live worker serves it; start one with --queues %s", queue, queue)
