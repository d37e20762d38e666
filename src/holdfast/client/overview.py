"""Queues and workers as an operator sees them: `app.queues`, `app.workers`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..model.worker import Worker
from ..names import check_queue
from ..storage.ops import control, insight, workers
from ..storage.port import Op, Store


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue, its state, and how many jobs are in each state."""

    name: str
    state: str = "active"
    counts: dict[str, int] = field(default_factory=dict)


class Queues:
    """The queues of one app."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def list(self) -> list[QueueView]:
        """Every queue that has jobs or a state of its own."""
        store = self._store()
        states = store.read(Op(insight.queue_states))
        views = {name: QueueView(name, state) for name, state in states.items()}
        for count in store.read(Op(insight.count_jobs)):
            views.setdefault(count.queue, QueueView(count.queue)).counts[count.label] = count.jobs
        return [views[name] for name in sorted(views)]

    def pause(self, queue: str) -> None:
        """Accept jobs but hand out none, in every worker."""
        name = check_queue(queue)
        self._store().write(Op(lambda tx: control.set_queue_state(tx, name, "paused")))

    def resume(self, queue: str) -> None:
        """Hand out jobs again."""
        name = check_queue(queue)
        self._store().write(Op(lambda tx: control.set_queue_state(tx, name, "active")))


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
