"""Sends the event log to webhooks: the leader creates one delivery per event and endpoint.

The deliveries of some rows and the mark behind these rows are one commit, so two leaders or a crash do no harm. Without
webhooks it costs one read per interval.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...clock import Clock
from ...storage.ops import events
from ...storage.ops.webhooks import fanout
from ...storage.ops.webhooks.endpoints import TOPIC
from ...storage.port import Op, Store
from .service import wake_on_topics

logger: Final = logging.getLogger("holdfast.webhooks")

ROLE: Final = "webhooks"
_ROUNDS: Final = 20
"""Transactions in a row before other services get a chance."""
# Long enough that thousands of finished jobs a second are handled in batches.
_BETWEEN_CHECKS: Final = 0.05
# While no endpoint wants the events, such as those of the deliveries themselves.
_BETWEEN_EMPTY_CHECKS: Final = 0.25


async def pass_on(store: Store) -> int:
    """Create all pending deliveries, whichever worker leads; return their number."""
    made = 0
    while await store.aread(Op(fanout.is_behind, single=True)):
        passed = await store.awrite(Op(fanout.fan_out))
        made += passed.made
        moved = await store.awrite(Op(events.relay)) if passed.waits else 0
        if not (passed.rows or moved):
            # Another worker is doing it.
            break
    return made


class Fanout:
    """`leads` says whether this worker creates deliveries."""

    def __init__(self, store: Store, leads: Callable[[], bool], clock: Clock) -> None:
        self._store = store
        self._leads = leads
        self._clock = clock
        self._not_before = float("-inf")

    async def run_once(self) -> float | None:
        """Create pending deliveries; 0 if there is more. Does nothing where another worker leads."""
        if not self._leads():
            return None
        if (early := self._not_before - self._clock.monotonic()) > 0:
            return early
        self._not_before = self._clock.monotonic() + _BETWEEN_CHECKS
        if not await self._store.aread(Op(fanout.is_behind, single=True)):
            return None
        made, pause = await self._pass_on()
        if not made and pause != 0:
            self._not_before = self._clock.monotonic() + _BETWEEN_EMPTY_CHECKS
        return pause

    async def _pass_on(self) -> tuple[int, float | None]:
        """Return the number of deliveries created, and the seconds until the next check."""
        # Events that arrive meanwhile wait for the next check. Handled at once, a worker that only delivered made 72
        # commits a second on Postgres and 39 on SQLite, each of one or two rows of the log; now 10 and 4.
        made, moved = 0, 0
        for _ in range(_ROUNDS):
            passed = await self._store.awrite(Op(fanout.fan_out))
            self._log(passed)
            made += passed.made
            if passed.more:
                continue
            if not passed.waits:
                return made, None
            if 0 < moved < events.MOVED_AT_ONCE:
                return made, _BETWEEN_CHECKS
            if not (moved := await self._store.awrite(Op(events.relay))):
                # Another worker is moving them, and sends a wake-up when done.
                return made, _BETWEEN_CHECKS
        return made, 0.0

    async def listen(self, wake: Callable[[], None]) -> None:
        """Wake when an event was written, or an endpoint created."""
        await wake_on_topics(self._store.wakeups, [events.TOPIC, "finished", TOPIC], wake)

    def _log(self, passed: fanout.Passed) -> None:
        if passed.unreadable:
            logger.error("rows %s of the event log cannot be read; no webhook receives them", passed.unreadable)
        if passed.missed:
            logger.error("%d rows of the event log were pruned before webhooks received them", passed.missed)
