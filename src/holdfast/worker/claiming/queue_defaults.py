"""Defaults from a queue's settings for the jobs that a worker claims from it.

Options of the call override those of the task, which override those of the queue. Read at each poll, not per claim.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...model.jobs import Claimed
from ...model.queues import QueueSettings
from ...tasks.task import Task


class QueueDefaults:
    """Queue settings as of the last poll."""

    def __init__(self) -> None:
        self._by_queue: dict[str, QueueSettings] = {}

    def learn(self, queues: list[QueueSettings]) -> None:
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
