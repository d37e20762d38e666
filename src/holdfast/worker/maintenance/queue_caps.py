"""Keeps queues within their caps: deletes excess finished jobs, the least needed states first, then the oldest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from ...rules.retention import EVICTED
from ...storage.ops.jobs import retention as ops
from ...storage.port import Op, Store

PAUSE: Final = 0.01
"""Seconds between two transactions, so that claims and finishes go first."""


class Caps:
    """`leads` says whether this worker prunes; `rest` pauses, so that other transactions can run."""

    def __init__(self, store: Store, leads: Callable[[], bool], rest: Callable[[float], Awaitable[None]]) -> None:
        self._store = store
        self._leads = leads
        self._rest = rest
        self._cursors: dict[tuple[str, str], int] = {}
        """By queue and state: jobs that ended before this are deleted, or had to stay."""

    def start_over(self) -> None:
        """Check everything again."""
        self._cursors.clear()

    async def enforce(self, caps: Mapping[str, int]) -> int:
        """Delete the jobs over the caps; return their number."""
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
            # If none could be deleted, such as jobs that a dedupe window names, the next page starts after them.
            self._cursors[queue, state] = page[-1][1] + (1 if deleted == 0 else 0)
            await self._rest(PAUSE)
        return gone
