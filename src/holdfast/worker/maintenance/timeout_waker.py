"""Ends timed-out waits of suspended jobs. Run by the leader, and occasionally by other workers."""

from __future__ import annotations

import logging
from typing import Final

from ...clock import SECOND
from ...storage.ops.signals import waking
from ...storage.port import Op, Store

logger: Final = logging.getLogger("holdfast.worker")

# Rows that another worker has locked are skipped; retry them soon.
_AGAIN: Final = 0.05


class TimeoutWaker:
    """`longest_rest` is in seconds."""

    def __init__(self, store: Store, longest_rest: float) -> None:
        self._store = store
        self._longest_rest = longest_rest

    async def run_once(self) -> float | None:
        """End the waits that are due; return the seconds until the next check."""
        rest = await self._rest()
        if rest is None or rest > 0:
            return rest
        # Only now a write, which on SQLite takes the lock from other writers.
        looked_at = await self._store.awrite(Op(waking.wake_due))
        return 0.0 if looked_at >= waking.PAGE else _AGAIN

    async def _rest(self) -> float | None:
        left = await self._store.aread(Op(waking.next_wake, single=True))
        return None if left is None or left / SECOND > self._longest_rest else max(0.0, left / SECOND)
