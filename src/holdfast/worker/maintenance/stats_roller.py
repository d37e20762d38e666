"""Keeps statistics: rolls up the minutes that have closed, counts errors by kind.

One worker does it, but two would do no harm: both compute equal figures, and the mark of the errors moves only once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

import msgspec

from ...clock import Clock
from ...model.stats import MINUTE
from ...storage.disk import free_space, log_bytes
from ...storage.ops.jobs import queries
from ...storage.ops.stats import errors, rollup, stats
from ...storage.ops.workers import workers
from ...storage.port import Op, Store, Tx

KEPT: Final = 30 * 86_400_000_000
"""Retention of minutes and errors, in microseconds."""
TASKS_KEPT: Final = 7 * 86_400_000_000
"""Retention of the minutes of tasks, of which there are more than of queues."""

_SETTLING: Final = 5_000_000
"""Delay from a minute's end to its closing: nearly all runs that ended in it are committed by then."""
_AGAIN: Final = 2 * MINUTE
"""Minutes this close to the newest one are rolled up again, for late commits."""
_MOST: Final = 10 * MINUTE
_LOST: Final = 1440 * MINUTE
"""Minutes that closed longer ago than this are not rolled up any more."""


class StatsRoller:
    """`leads` says whether this worker keeps the statistics."""

    def __init__(self, store: Store, leads: Callable[[], bool], clock: Clock) -> None:
        self._store = store
        self._leads = leads
        self._clock = clock
        self._seen: dict[int, rollup.Signs] = {}
        """Signs of the minutes when they were last rolled up here."""
        self._pruned_at = float("-inf")
        self._noted = -1

    async def run_once(self) -> float | None:
        """Do what is due now; 0 if there is more."""
        if not self._leads():
            return None
        more = await self._count_errors()
        more = await self._roll() or more
        await self._note_health()
        await self._prune()
        return 0.0 if more else None

    async def _roll(self) -> bool:
        """Roll up the minutes that closed or changed since the last time; True if more are left."""
        now = await self._store.aread(Op(queries.clock, single=True))
        mark = before = await self._store.aread(Op(rollup.rolled_to, single=True))
        closed = (now - _SETTLING) // MINUTE * MINUTE
        if closed <= mark < closed + _MOST:
            return False
        if mark > closed:  # the clock was set back since
            mark = 0
        since = max(mark - _AGAIN, closed - _LOST) if mark else closed - _AGAIN - MINUTE
        if closed - since > _MOST:
            # After a rest of all workers: most of these minutes are empty.
            first = await self._store.aread(Op(lambda tx: rollup.first_sign(tx, since), single=True))
            since = closed - _AGAIN if first is None else min(first, closed - _AGAIN)
        until = min(closed, since + _MOST)
        for minute in range(since, until, MINUTE):
            await self._roll_minute(minute)
        await self._store.awrite(Op(lambda tx: rollup.set_rolled(tx, before, until), single=True))
        self._seen = {minute: signs for minute, signs in self._seen.items() if minute >= until - _MOST}
        return until < closed

    async def _roll_minute(self, minute: int) -> None:
        """Roll up a minute, unless it has not changed since it was last rolled up here."""
        signs, running = await self._store.aread(Op(lambda tx: rollup.signs_of(tx, minute), single=True))
        if self._seen.get(minute) == signs or (signs.is_empty and not running):
            return
        rolled = await self._store.aread(Op(lambda tx: rollup.roll(tx, minute), slow=True))
        await self._store.awrite(Op(lambda tx: rollup.put(tx, rolled), slow=True))
        self._seen[minute] = signs

    async def _note_health(self) -> None:
        now = await self._store.aread(Op(queries.clock, single=True))
        if now // MINUTE == self._noted:
            return
        seen, file = await self._store.aread(Op(lambda tx: stats.health_now(tx, self._store.backend)))
        point = msgspec.structs.replace(seen, **_around(self._store, file))
        await self._store.awrite(Op(lambda tx: stats.put_health(tx, point), single=True))
        self._noted = now // MINUTE

    async def _count_errors(self) -> bool:
        page = await self._store.aread(Op(errors.page, slow=True))
        if not page.rows:
            return False
        groups = await asyncio.to_thread(errors.grouped, page)
        await self._store.awrite(Op(lambda tx: errors.note(tx, page, groups)))
        return page.is_full

    async def _prune(self) -> None:
        now = self._clock.monotonic()
        if now < self._pruned_at + MINUTE / 1e6:
            return
        self._pruned_at = now
        await self._store.awrite(Op(_forget, slow=True))


def _around(store: Store, file: str | None) -> dict[str, int | None]:
    """Measure the disk and the connection pool, which the database does not report."""
    pool_peak, pool_size = store.pool_peak() or (None, None)
    return {
        "wal_bytes": None if file is None else log_bytes(file),
        "disk_free": None if file is None else free_space(os.path.dirname(file)),
        "pool_peak": pool_peak,
        "pool_size": pool_size,
    }


async def _forget(tx: Tx) -> None:
    await rollup.prune(tx, KEPT, TASKS_KEPT)
    await errors.prune(tx, KEPT)
    await stats.prune_health(tx, KEPT)
    await workers.forget_pulses(tx)
