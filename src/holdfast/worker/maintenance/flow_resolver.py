"""Carries on what the ends of jobs set off in flows: cascades, cancels in pages, callbacks. Two who do it do no harm.

What an operation could not do in its own commit it has left in the store. A look finds it, and costs no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...storage.ops.flows import dependency_resolution, edges, endings, flow_control
from ...storage.port import Op, Store, Tx
from .service import wake_on_ring

_HOPS: Final = 20
"""So far a cascade is carried on in one transaction."""
_ROUNDS: Final = 20
"""So many transactions in a row, then others have their turn."""


class Resolver:
    """Every worker has one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run_once(self) -> float | None:
        """Do what waits to be done; 0 where there may be more."""
        for _ in range(_ROUNDS):
            left = await self._store.aread(Op(dependency_resolution.left, single=True))
            if not left.any_but_callbacks:
                break
            if left.hops:
                await self._write(lambda tx: dependency_resolution.resolve_page(tx, rounds=_HOPS))
            if left.sweeps:
                await self._write(dependency_resolution.sweep)
            if left.cancels:
                await self._cancel()
        else:
            return 0.0
        if left.callbacks:
            await self._write(endings.pay_callbacks)
        return None

    async def hear(self, wake: Callable[[], None]) -> None:
        """Wake at once when an operation has left something."""
        await wake_on_ring(self._store.bell, [edges.HOPS], wake)

    async def _cancel(self) -> None:
        for flow_id in await self._store.aread(Op(flow_control.cancelling, single=True)):
            await self._store.awrite(Op(lambda tx, flow_id=flow_id: flow_control.cancel_page(tx, flow_id)))  # type: ignore[misc]

    async def _write(self, op: Callable[[Tx], Any]) -> Any:
        return await self._store.awrite(Op(op))
