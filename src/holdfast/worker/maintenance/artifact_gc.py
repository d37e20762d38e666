"""Removes the bytes of deleted artifacts, and of those that were never completed.

It removes only what nothing can refer to any more: blobs marked by a committed transaction, those whose writer's epoch
is over, and files without a row. One worker does it at a time, but two would do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...clock import SECOND, SYSTEM_CLOCK
from ...storage.blobs import PATIENCE, Awaiting, remove_all
from ...storage.ops.artifacts import blobs
from ...storage.ops.store import applied_migrations
from ...storage.port import Op, Store

STRAY_AGE: Final = 86_400.0
"""Seconds for which files without a row are kept: they may belong to a database that is restored later."""
_ROUNDS_BETWEEN_STRAY_CHECKS: Final = 60


class ArtifactCollector:
    """`leads` says whether this worker collects."""

    def __init__(self, store: Store, leads: Callable[[], bool]) -> None:
        self._store = store
        self._reach = Awaiting(lambda: store)
        self._leads = leads
        self._rounds = 0

    async def run_once(self) -> float | None:
        """Remove one page; 0 if there is more to do. Does nothing where another worker leads."""
        if not self._leads():
            return None
        # Read first: a needless write would take the lock of a SQLite file from other writers.
        if given_up := await self._store.aread(Op(blobs.abandoned, single=True, slow=True)):
            await self._store.awrite(Op(lambda tx: blobs.doom(tx, given_up), patience=PATIENCE))
        doomed = await self._store.aread(Op(blobs.doomed, single=True))
        await remove_all(self._reach, doomed)
        if self._rounds % _ROUNDS_BETWEEN_STRAY_CHECKS == 0:
            await self._remove_strays()
        self._rounds += 1
        return 0.0 if len(doomed) == blobs.PAGE else None

    async def _remove_strays(self) -> None:
        """Remove files whose rows a power failure or a restored backup has undone. Listed before the rows are read.

        Files older than the database belong to another one, which may be restored.
        """
        applied = await self._store.aread(Op(applied_migrations))
        created = min((migration.at for migration in applied), default=0) / SECOND
        files = await self._reach.run(self._store.blobs.strays, created, SYSTEM_CLOCK.now() / SECOND - STRAY_AGE)
        for start in range(0, len(files), blobs.PAGE):
            page = files[start : start + blobs.PAGE]
            known = await self._store.aread(_known(page))
            for blob in page:
                if blob not in known:
                    await self._store.blobs.remove(self._reach, blob)


def _known(page: Sequence[str]) -> Op[set[str]]:
    return Op(lambda tx: blobs.known(tx, page), single=True)
