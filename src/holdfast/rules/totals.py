"""Splits a queue's total over the workers that serve it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from ..model.worker import Worker

Shares: TypeAlias = "dict[tuple[str, str], int]"
"""Slots by queue and worker."""


def split(totals: Mapping[str, int], workers: Sequence[Worker]) -> Shares:
    """Equal shares, the remainder one each to the first by id: the same for everybody who computes it."""
    shares: Shares = {}
    for queue, total in totals.items():
        serving = sorted(worker.id for worker in live(workers) if queue in worker.queues)
        for place, worker in enumerate(serving):
            shares[queue, worker] = total // len(serving) + (place < total % len(serving))
    return shares


def before_the_first_split(total: int, queue: str, workers: Sequence[Worker]) -> int:
    """A worker's share until the leader has spoken: rounded up, so that the total is used, and never all of it."""
    eligible = sum(1 for worker in live(workers) if queue in worker.queues)
    return -(-total // max(1, eligible))


def unserved(queues: Collection[str], workers: Sequence[Worker]) -> list[str]:
    """Queues that have work and nobody to do it."""
    served = {queue for worker in live(workers) for queue in worker.queues}
    return sorted(queue for queue in queues if queue not in served)


def live(workers: Sequence[Worker]) -> list[Worker]:
    return [worker for worker in workers if worker.state == "alive" and not worker.is_expired]
