"""Completes what finished jobs trigger in flows: cascades, paged cancels, callbacks. Two workers may do it at once.

Operations leave in the store what they could not do in their own commit. Finding it is a read, without a lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...storage.ops.flows import dependency_resolution, edges, endings, flow_control
from ...storage.port import Op, Store, Tx
from .service import wake_on_topics

_LEVELS: Final = 20
"""Levels of a cascade per transaction."""
_ROUNDS: Final = 20
"""Transactions in a row before other services get a chance."""


class Resolver:
    """Run by every worker."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run_once(self) -> float | None:
        """Do what is pending; 0 if there may be more."""
        for _ in range(_ROUNDS):
            left = await self._store.aread(Op(dependency_resolution.left, single=True))
            if not left.any_but_callbacks:
                break
            if left.hops:
                await self._write(lambda tx: dependency_resolution.resolve_page(tx, rounds=_LEVELS))
            if left.sweeps:
                await self._write(dependency_resolution.sweep)
            if left.cancels:
                await self._cancel()
        else:
            return 0.0
        if left.callbacks:
            await self._write(endings.pay_callbacks)
        return None

    async def listen(self, wake: Callable[[], None]) -> None:
        """Wake at once when an operation has left something."""
        await wake_on_topics(self._store.wakeups, [edges.HOPS], wake)

    async def _cancel(self) -> None:
        for flow_id in await self._store.aread(Op(flow_control.cancelling, single=True)):
            await self._store.awrite(Op(lambda tx, flow_id=flow_id: flow_control.cancel_page(tx, flow_id)))  # type: ignore[misc]

    async def _write(self, op: Callable[[Tx], Any]) -> Any:
        return await self._store.awrite(Op(op))
