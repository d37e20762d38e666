"""Keeps queues within their caps: of too many finished jobs the least needed go first, the oldest of them first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from ...rules.retention import EVICTED
from ...storage.ops.jobs import retention as ops
from ...storage.port import Op, Store

PAUSE: Final = 0.01
"""Seconds between two transactions: claims and finishes go first."""


class Caps:
    """`leads` says whether this worker is the one that prunes; `rest` lets others have the store."""

    def __init__(self, store: Store, leads: Callable[[], bool], rest: Callable[[float], Awaitable[None]]) -> None:
        self._store = store
        self._leads = leads
        self._rest = rest
        self._cursors: dict[tuple[str, str], int] = {}
        """By queue and state: what ended before this is gone, or had to stay."""

    def start_over(self) -> None:
        """Look at everything again."""
        self._cursors.clear()

    async def enforce(self, caps: Mapping[str, int]) -> int:
        """Delete what is too much; how many."""
        evicted = 0
        for queue, cap in sorted(caps.items()):
            over = partial(ops.over_cap, queue=queue, cap=cap)
            excess = await self._store.aread(Op(over, slow=True))
            for state in EVICTED:
                if excess > 0:
                    gone = await self._evict(queue, str(state), excess)
                    excess, evicted = excess - gone, evicted + gone
        return evicted

    async def _evict(self, queue: str, state: str, excess: int) -> int:
        gone = 0
        while gone < excess and self._leads():
            after = self._cursors.get((queue, state), 0)
            left = excess - gone
            evicted = partial(ops.page_of_evicted, queue=queue, state=state, after=after, n=left)
            page = await self._store.aread(Op(evicted, slow=True))
            if not page:
                break
            ids = [row[0] for row in page]
            deleted = await self._store.awrite(Op(lambda tx, ids=ids: ops.prune_jobs(tx, ids, 0), slow=True))  # type: ignore[misc]
            gone += deleted
            # Where nothing could go, such as jobs that a dedupe window names, the next look begins after them.
            self._cursors[queue, state] = page[-1][1] + (1 if deleted == 0 else 0)
            await self._rest(PAUSE)
        return gone
