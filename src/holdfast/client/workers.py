"""Workers as an operator sees them: `app.workers`."""

from __future__ import annotations

from collections.abc import Callable

from ..model.actions import DeclaredDead
from ..model.workers import WorkerInfo
from ..names import check_name
from ..storage.ops.workers import leases, workers
from ..storage.port import Op, Store
from .calls import composed, reads
from .lines import Line

MOST_REASON = 256
"""The most bytes of the reason why a worker is declared dead."""


class Workers:
    """The workers of one store."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    @reads
    def list(self) -> Op[list[WorkerInfo]]:
        """Return every registered worker, the oldest first, with the number of its jobs and the oldest of them."""
        return Op(workers.list_with_jobs)

    alist = list.awaiting

    @composed
    async def mark_dead(self, line: Line, worker_id: str, reason: str, *, actor: str = "app") -> DeclaredDead:
        """Declare a worker dead: its jobs are rescued now, as if its lease had expired, and it may record nothing more.

        If its process still runs, it stops its handlers as soon as it notices, and continues under a new identity. A
        repeated call says so. NotFound if there is no such worker.
        """
        name, why = check_name("the worker's id", worker_id), check_name("the reason", reason, limit=MOST_REASON)
        page = await line.write(Op(lambda tx: leases.mark_dead(tx, name, actor=actor, reason=why)))
        if page is None:
            return DeclaredDead(worker=name, rescued=0, again=True, changed=False)
        count = len(page.rescued)
        while page.more:
            page = await line.write(Op(lambda tx: workers.rescue(tx, name, certain=True)))
            count += len(page.rescued)
        return DeclaredDead(worker=name, rescued=count, again=False, changed=True)

    amark_dead = mark_dead.awaiting

    @composed
    async def rescue(self, line: Line, worker_id: str) -> int:
        """Rescue the jobs of a worker whose process has ended; return their number."""
        count, more = 0, True
        while more:
            page = await line.write(Op(lambda tx: workers.rescue(tx, worker_id, certain=True)))
            count, more = count + len(page.rescued), page.more
        return count

    arescue = rescue.awaiting
