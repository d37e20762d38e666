"""Releases jobs that wait for a budget or a quota, resets budgets when due, and removes what has expired.

Every release, raise and reset unblocks what it can at once. This is for what they miss: a run that was lost, a job that
was being blocked at that moment. It reads each budget once, however many jobs wait for it; if that fails, they stay
blocked.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ...errors import HoldfastError
from ...storage.ops.budgets import budgets, shortages
from ...storage.ops.limits import quotas
from ...storage.port import Op, Store, Tx

logger: Final = logging.getLogger("holdfast.worker")

_PAGE: Final = 200


class BudgetReleaser:
    """Run by the leader, and occasionally by other workers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run_once(self) -> float | None:
        for key in await self._store.aread(Op(budgets.due_resets, single=True)):
            await self._each(key, self._reset)
        for key in await self._store.aread(Op(shortages.what_is_short, single=True)):
            await self._each(key, self._unblock)
        await self._clean()
        return None

    async def _reset(self, key: str) -> None:
        await self._store.awrite(Op(lambda tx: budgets.reset_due(tx, key)))

    async def _unblock(self, key: str) -> None:
        # Read first: a needless write would take the lock of a SQLite file from other writers.
        ids = await self._store.aread(Op(lambda tx: shortages.who_fits(tx, key)))
        if ids:
            await self._store.awrite(Op(lambda tx: shortages.release_waiting(tx, ids)))

    async def _each(self, key: str, work: Callable[[str], Awaitable[None]]) -> None:
        """Process one key; log its error, so that the others do not wait for it."""
        try:
            await work(key)
        except HoldfastError as error:
            name = key.partition("\x1f")[2]
            if not self._store.outage.covers(f"budget or quota {name}", error):
                logger.error("budget or quota %r could not be read (%s); jobs waiting for it keep waiting", name, error)

    async def _clean(self) -> None:
        if await self._store.aread(Op(shortages.has_leftovers, single=True)):
            await self._store.awrite(Op(shortages.drop_leftovers))
        spends, admissions = await self._store.aread(Op(shortages.what_has_expired, single=True))
        if spends:
            await self._until_none(budgets.prune_spends)
        if admissions:
            await self._until_none(quotas.prune_admissions)

    async def _until_none(self, prune: Callable[[Tx, int], Awaitable[int]]) -> None:
        async def page(tx: Tx) -> int:
            return await prune(tx, _PAGE)

        while await self._store.awrite(Op(page)) >= _PAGE:
            pass
