"""State of one worker that its parts share: its identity, whether it may claim, and what its last poll found."""

from __future__ import annotations

from typing import Any

import msgspec

from ..model.jobs import Claimed
from ..model.limits import ActiveLimits
from ..model.queues import QueueRecord
from ..tasks.task import Task


class WorkerState:
    """Changed on the event loop's thread only."""

    __slots__ = ("closing", "defaults", "fenced", "id", "leaving", "shares", "standing", "suspects_wait")

    def __init__(self, identity: str) -> None:
        self.id = identity
        """Changes when the worker was declared lost."""
        self.closing = False
        """True once nothing more is claimed or started here."""
        self.leaving = False
        """True once the worker is stopped for good: it will not register again."""
        self.fenced = False
        """True while the lease may have ended: nothing is claimed or started."""
        self.standing = ActiveLimits()
        """Limits that apply to jobs without being named by them."""
        self.shares: dict[str, int] = {}
        """Jobs that this worker may run at once, for queues with a total."""
        self.suspects_wait = False
        """True if suspects wait that only an idle worker may take."""
        self.defaults = QueueDefaults()


class QueueDefaults:
    """Defaults from the settings of queues, as of the last poll, for the jobs claimed from them.

    Options of the call override those of the task, which override those of the queue.
    """

    def __init__(self) -> None:
        self._by_queue: dict[str, QueueRecord] = {}

    def learn(self, queues: list[QueueRecord]) -> None:
        self._by_queue = {queue.name: queue for queue in queues if queue.retry or queue.timeout}

    def fill(self, job: Claimed, task: Task[Any, Any] | None) -> Claimed:
        """Return the job with its queue's timeout and retry policy where it has none. Its task may be unknown."""
        queue = self._by_queue.get(job.queue)
        if queue is None:
            return job
        retry, timeout = job.retry, job.timeout
        if retry is None and (task is None or task.task_options.retry is None):
            retry = queue.retry
        if timeout is None:
            timeout = queue.timeout
        return msgspec.structs.replace(job, retry=retry, timeout=timeout)
