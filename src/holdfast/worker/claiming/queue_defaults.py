"""What a queue's settings add to the jobs that a worker takes from it.

The call's word counts most, then the task's, then the queue's. Read every few seconds: a claim need not look.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...model.jobs import Claimed
from ...model.queues import QueueSettings
from ...tasks.task import Task


class QueueDefaults:
    """The settings of the queues as they were when last looked at."""

    def __init__(self) -> None:
        self._by_queue: dict[str, QueueSettings] = {}

    def learn(self, queues: list[QueueSettings]) -> None:
        self._by_queue = {queue.name: queue for queue in queues if queue.retry or queue.timeout}

    def fill(self, job: Claimed, task: Task[Any, Any] | None) -> Claimed:
        """The job with its queue's timeout and retry policy where it has none of its own. Its task may be unknown."""
        queue = self._by_queue.get(job.queue)
        if queue is None:
            return job
        retry, timeout = job.retry, job.timeout
        if retry is None and (task is None or task.task_options.retry is None):
            retry = queue.retry
        if timeout is None:
            timeout = queue.timeout
        return msgspec.structs.replace(job, retry=retry, timeout=timeout)
