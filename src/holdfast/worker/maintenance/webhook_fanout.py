"""Passes the event log on to webhooks: the leader makes the deliveries, each event once for each endpoint.

The deliveries of some rows and the mark behind these rows are one commit, so two leaders or a crash do no harm. Where
no webhook was ever made, a look now and then is all it costs.
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
from .service import wake_on_ring

logger: Final = logging.getLogger("holdfast.webhooks")

ROLE: Final = "webhooks"
_ROUNDS: Final = 20
"""So many transactions in a row, then others have their turn."""
# Enough for a fleet that ends thousands of jobs a second to be told of them in batches.
_BETWEEN_LOOKS: Final = 0.05
# While what happens is of no interest to anybody, such as the ends of deliveries themselves.
_BETWEEN_VAIN_LOOKS: Final = 0.25


async def pass_on(store: Store) -> int:
    """Pass on all that there is, whoever leads; how many deliveries were made."""
    made = 0
    while await store.aread(Op(fanout.is_behind, single=True)):
        passed = await store.awrite(Op(fanout.fan_out))
        made += passed.made
        moved = await store.awrite(Op(events.relay)) if passed.waits else 0
        if not (passed.rows or moved):
            # Another is at it.
            break
    return made


class Fanout:
    """`leads` says whether this worker is the one that passes on."""

    def __init__(self, store: Store, leads: Callable[[], bool], clock: Clock) -> None:
        self._store = store
        self._leads = leads
        self._clock = clock
        self._not_before = float("-inf")

    async def run_once(self) -> float | None:
        """Pass on what there is; 0 if there is more, unless another worker does it."""
        if not self._leads():
            return None
        if (early := self._not_before - self._clock.monotonic()) > 0:
            return early
        self._not_before = self._clock.monotonic() + _BETWEEN_LOOKS
        if not await self._store.aread(Op(fanout.is_behind, single=True)):
            return None
        made, pause = await self._pass_on()
        if not made and pause != 0:
            self._not_before = self._clock.monotonic() + _BETWEEN_VAIN_LOOKS
        return pause

    async def _pass_on(self) -> tuple[int, float | None]:
        """How many deliveries were made, and when to look again."""
        # What is told meanwhile waits for the next look. Looked for at once, it cost a worker that only delivered 72
        # commits a second on Postgres and 39 on SQLite, of a row or two of the log each; now they are 10 and 4.
        made, moved = 0, 0
        for _ in range(_ROUNDS):
            passed = await self._store.awrite(Op(fanout.fan_out))
            self._tell(passed)
            made += passed.made
            if passed.more:
                continue
            if not passed.waits:
                return made, None
            if 0 < moved < events.MOVED_AT_ONCE:
                return made, _BETWEEN_LOOKS
            if not (moved := await self._store.awrite(Op(events.relay))):
                # Somebody else moves them, and rings when that is done.
                return made, _BETWEEN_LOOKS
        return made, 0.0

    async def hear(self, wake: Callable[[], None]) -> None:
        """Wake when something was told, or an endpoint made."""
        await wake_on_ring(self._store.bell, [events.TOPIC, "finished", TOPIC], wake)

    def _tell(self, passed: fanout.Passed) -> None:
        if passed.unreadable:
            logger.error("rows %s of the event log cannot be read; no webhook tells of them", passed.unreadable)
        if passed.missed:
            logger.error("%d rows of the event log were pruned before webhooks told of them", passed.missed)
