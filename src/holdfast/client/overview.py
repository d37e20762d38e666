"""Workers as an operator sees them: `app.workers`."""

from __future__ import annotations

import builtins
from collections.abc import Callable

from ..model.control import Buried
from ..model.worker import Worker
from ..names import check_name
from ..storage.ops import leases, workers
from ..storage.port import Op, Store

MOST_REASON = 256
"""Bytes of the reason why a worker is declared dead."""


class Workers:
    """The workers of one store."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def list(self) -> list[Worker]:
        """Every registered worker, the oldest first, with how many jobs it runs and the oldest of these."""
        return self._store().read(Op(workers.list_with_jobs))

    async def alist(self) -> builtins.list[Worker]:
        return await self._store().aread(Op(workers.list_with_jobs))

    def mark_dead(self, worker_id: str, reason: str, *, actor: str = "app") -> Buried:
        """Declare a worker dead: its jobs are rescued now, as if its lease had run out, and it may record nothing more.

        Its process, if there still is one, stops its handlers as soon as it learns of it, and goes on under a new
        identity. A repeat says so. NotFound if there is no such worker.
        """
        name, why = check_name("the worker's id", worker_id), check_name("the reason", reason, limit=MOST_REASON)
        page = self._store().write(Op(lambda tx: leases.mark_dead(tx, name, actor=actor, reason=why)))
        if page is None:
            return Buried(name, 0, again=True)
        return Buried(name, len(page.rescued) + (self.bury(name) if page.more else 0))

    async def amark_dead(self, worker_id: str, reason: str, *, actor: str = "app") -> Buried:
        """The awaiting twin of `mark_dead`."""
        name, why = check_name("the worker's id", worker_id), check_name("the reason", reason, limit=MOST_REASON)
        store = self._store()
        page = await store.awrite(Op(lambda tx: leases.mark_dead(tx, name, actor=actor, reason=why)))
        if page is None:
            return Buried(name, 0, again=True)
        count = len(page.rescued)
        while page.more:
            page = await store.awrite(Op(lambda tx: workers.rescue(tx, name, certain=True)))
            count += len(page.rescued)
        return Buried(name, count)

    def bury(self, worker_id: str) -> int:
        """Rescue the jobs of a worker whose process is known to be gone; how many."""
        count = 0
        while True:
            page = self._store().write(Op(lambda tx: workers.rescue(tx, worker_id, certain=True)))
            count += len(page.rescued)
            if not page.more:
                return count
