"""Splits the totals of queues over the workers, and logs jobs that no live worker can run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...model.routing import Stranded
from ...storage.ops.limits import totals
from ...storage.ops.routing.stranded import stranded
from ...storage.port import Op, Store

logger: Final = logging.getLogger("holdfast.worker")

# Checks between two log lines about the same subject.
_REPEAT: Final = 60


class QueueTotals:
    """One worker is enough; two would write equal shares."""

    def __init__(self, store: Store, leads: Callable[[], bool]) -> None:
        self._store = store
        self._leads = leads
        self._warned: dict[tuple[str, str, str | None], int] = {}

    async def run_once(self) -> None:
        """Recompute the shares, and log jobs that no worker can run."""
        if not self._leads():
            return
        if await self._store.aread(Op(totals.totals, single=True)):
            await self._store.awrite(Op(totals.share_out))
        self._warn(await self._store.aread(Op(stranded, single=True)))

    def _warn(self, waiting: list[Stranded]) -> None:
        found = {_subject(item): item for item in waiting}
        self._warned = {subject: self._warned.get(subject, 0) + 1 for subject in found}
        for subject, times in self._warned.items():
            # Not at the first check: its worker may be starting.
            if times % _REPEAT == 2:
                _log(found[subject])


def _subject(item: Stranded) -> tuple[str, str, str | None]:
    """Return the subject of a log line: an unserved queue is one subject, whatever its jobs require."""
    return item.queue, item.code, None if item.code == "queue_not_served" else item.job


def _log(item: Stranded) -> None:
    queue = item.queue
    if not item.job:
        logger.error("queue %r has a total and no live worker serves it; start one with --queues %s", queue, queue)
    elif item.code == "queue_not_served":
        logger.error("queue %r has jobs and no live worker serves it; start one with --queues %s", queue, queue)
    else:
        logger.error("job %s of queue %r, and others like it, cannot run: %s", item.job, queue, item.text)
