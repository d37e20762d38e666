"""Ends the waits of suspended jobs whose time is over. The leader does it, and the others now and then."""

from __future__ import annotations

import logging
from typing import Final

from ...clock import SECOND
from ...storage.ops.signals import waking
from ...storage.port import Op, Store

logger: Final = logging.getLogger("holdfast.worker")

# What another worker holds is not waited for.
_AGAIN: Final = 0.05


class TimeoutWaker:
    """`longest_rest` is in seconds."""

    def __init__(self, store: Store, longest_rest: float) -> None:
        self._store = store
        self._longest_rest = longest_rest

    async def run_once(self) -> float | None:
        """End what is due; the seconds until it is worth looking again."""
        rest = await self._rest()
        if rest is None or rest > 0:
            return rest
        # Only now a write, which on SQLite takes the lock from those who have work for it.
        looked_at = await self._store.awrite(Op(waking.wake_due))
        return 0.0 if looked_at >= waking.PAGE else _AGAIN

    async def _rest(self) -> float | None:
        left = await self._store.aread(Op(waking.next_wake, single=True))
        return None if left is None or left / SECOND > self._longest_rest else max(0.0, left / SECOND)
