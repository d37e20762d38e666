"""Keeps the numbers: rolls the minutes that have closed, counts errors by kind.

One worker does it, but two would do no harm: minutes roll to the same figures, and an error's mark moves only once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ..clock import Clock
from ..model.stats import MINUTE
from ..storage.ops import errors, insight, pulses, rollup
from ..storage.port import Op, Params, Store, Tx

KEPT: Final = 30 * 86_400_000_000
"""How long minutes and errors are kept, in microseconds."""

_SETTLING: Final = 5_000_000
"""A minute is closed so long after its end: what ended in it is committed by then, but for stragglers."""
_AGAIN: Final = 2 * MINUTE
"""Minutes that closed so shortly before the newest one are rolled again, for the sake of stragglers."""
_MOST: Final = 10 * MINUTE
_LOST: Final = 1440 * MINUTE
"""Minutes that closed so long ago are not caught up with."""


class Meter:
    """`leads` says whether this worker is the one that keeps the numbers."""

    def __init__(self, store: Store, leads: Callable[[], bool], clock: Clock) -> None:
        self._store = store
        self._leads = leads
        self._clock = clock
        self._seen: dict[int, rollup.Signs] = {}
        """What the minutes looked like when they were rolled here."""
        self._pruned_at = float("-inf")

    async def run_once(self) -> float | None:
        """Do what is due now; 0 if there is more of it."""
        if not self._leads():
            return None
        more = await self._count_errors()
        more = await self._roll() or more
        await self._prune()
        return 0.0 if more else None

    async def _roll(self) -> bool:
        """Roll what has closed since the last time, and what has changed since then; whether more is left."""
        now = await self._store.aread(Op(insight.clock, single=True))
        mark = before = await self._store.aread(Op(rollup.rolled_to, single=True))
        closed = (now - _SETTLING) // MINUTE * MINUTE
        if closed <= mark < closed + _MOST:
            return False
        if mark > closed:  # the clock was set back since
            mark = 0
        since = max(mark - _AGAIN, closed - _LOST) if mark else closed - _AGAIN - MINUTE
        until = min(closed, since + _MOST)
        rows = [row for minute in range(since, until, MINUTE) for row in await self._roll_minute(minute)]
        await self._store.awrite(Op(lambda tx: rollup.put(tx, rows)))
        await self._store.awrite(Op(lambda tx: rollup.set_rolled(tx, before, until), single=True))
        self._seen = {minute: signs for minute, signs in self._seen.items() if minute >= until - _MOST}
        return until < closed

    async def _roll_minute(self, minute: int) -> list[Params]:
        """Nothing if the minute is as it was when it was last rolled here."""
        signs, running = await self._store.aread(Op(lambda tx: rollup.signs_of(tx, minute), single=True))
        if self._seen.get(minute) == signs or (signs.is_empty and not running):
            return []
        self._seen[minute] = signs
        return await self._store.aread(Op(lambda tx: rollup.roll(tx, minute)))

    async def _count_errors(self) -> bool:
        page = await self._store.aread(Op(errors.page))
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
        await self._store.awrite(Op(_forget))


async def _forget(tx: Tx) -> None:
    await rollup.prune(tx, KEPT)
    await errors.prune(tx, KEPT)
    await pulses.forget_pulses(tx)
