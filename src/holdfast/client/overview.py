"""Workers as an operator sees them: `app.workers`."""

from __future__ import annotations

from collections.abc import Callable

from ..model.worker import Worker
from ..storage.ops import workers
from ..storage.port import Op, Store


class Workers:
    """The workers of one store."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def list(self) -> list[Worker]:
        """Every registered worker, the oldest first."""
        return self._store().read(Op(workers.list_workers))

    def bury(self, worker_id: str) -> int:
        """Rescue the jobs of a worker whose process is known to be gone; how many."""
        count = 0
        while True:
            page = self._store().write(Op(lambda tx: workers.rescue(tx, worker_id, certain=True)))
            count += len(page.rescued)
            if not page.more:
                return count
