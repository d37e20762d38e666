"""Splits the totals of queues over the workers, and says loudly when jobs wait that nobody can do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...model.routing import Stranded
from ...storage.ops.limits import totals
from ...storage.ops.routing.stranded import stranded
from ...storage.port import Op, Store

logger: Final = logging.getLogger("holdfast.worker")

# The same complaint again after so many looks.
_REPEAT: Final = 60


class QueueTotals:
    """One worker is enough; two would write the same shares."""

    def __init__(self, store: Store, leads: Callable[[], bool]) -> None:
        self._store = store
        self._leads = leads
        self._complaints: dict[tuple[str, str, int], int] = {}

    async def run_once(self) -> None:
        """Share out anew, and look for jobs that nobody can run."""
        if not self._leads():
            return
        if await self._store.aread(Op(totals.totals, single=True)):
            await self._store.awrite(Op(totals.share_out))
        self._complain(await self._store.aread(Op(stranded, single=True)))

    def _complain(self, waiting: list[Stranded]) -> None:
        found = {_subject(item): item for item in waiting}
        self._complaints = {subject: self._complaints.get(subject, 0) + 1 for subject in found}
        for subject, times in self._complaints.items():
            # Not at the first look: its worker may be starting.
            if times % _REPEAT == 2:
                _say(found[subject])


def _subject(item: Stranded) -> tuple[str, str, int]:
    """A queue that nobody serves is one subject, whatever else its jobs ask for."""
    return item.queue, item.code, 0 if item.code == "queue_not_served" else item.route


def _say(item: Stranded) -> None:
    queue = item.queue
    if not item.job_id:
        logger.error("queue %r has a total and no live worker serves it; start one with --queues %s", queue, queue)
    elif item.code == "queue_not_served":
        logger.error("queue %r has jobs and no live worker serves it; start one with --queues %s", queue, queue)
    else:
        logger.error("job %s of queue %r, and others like it, can run nowhere: %s", item.job_id, queue, item.text)
