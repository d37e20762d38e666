"""The store as one node sees it: calls take time, may fail, and may be the last thing that the node does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.storage.listeners import Listeners
from holdfast.storage.outage import Outage
from holdfast.storage.port import ListOp, Op, Tx

from .faults import Fault

if TYPE_CHECKING:
    from .node import Node


class Dead(BaseException):
    """Of a node that was killed. Nothing that it still does counts."""


class Shore:
    """A store over the one database of the world. Each transaction is run at one instant, whole."""

    backend = "sqlite"
    writes_waiting = 0

    def __init__(self, node: Node) -> None:
        self._node = node
        self._world = node.world
        self.wakeups = Listeners()
        self.blobs = node.world.sea.blobs
        self.outage = Outage()

    def pool_peak(self) -> None: ...

    def write(self, op: Op[Any]) -> Any:
        return self._now(self._world.sea.write, op)

    def read(self, op: Op[Any]) -> Any:
        return self._now(self._world.sea.read, op)

    def write_list(self, op: ListOp[Any, Any]) -> Any:
        return self._now(self._world.sea.write_list, op)

    async def awrite(self, op: Op[Any]) -> Any:
        return await self._there_and_back(self._world.sea.write, op)

    async def aread(self, op: Op[Any]) -> Any:
        return await self._there_and_back(self._world.sea.read, op)

    async def awrite_list(self, op: ListOp[Any, Any]) -> Any:
        return await self._there_and_back(self._world.sea.write_list, op)

    async def _there_and_back(self, call: Callable[[Any], Any], op: Any) -> Any:
        nemesis = self._world.nemesis
        await asyncio.sleep(nemesis.latency())
        await self._befall()
        try:
            return self._now(call, op)
        finally:
            await self._befall()
            if call != self._world.sea.read:
                await asyncio.sleep(nemesis.latency())

    async def _befall(self) -> None:
        """What may happen to the node just before a commit, and between that and its hearing of it."""
        nemesis = self._world.nemesis
        if nemesis.happens(nemesis.weather.crash_at_commit):
            self._node.crash()
            await asyncio.get_running_loop().create_future()
        elif nemesis.happens(nemesis.weather.pause_at_commit):
            self._node.freeze_past_lease()
            await asyncio.sleep(0)

    def _now(self, call: Callable[[Any], Any], op: Any) -> Any:
        if self._node.is_dead:
            raise Dead
        fault = self._world.nemesis.draw()
        self._world.trace.append((self._world.loop.time(), self._node.name, op.run.__qualname__, fault and fault.kind))
        rung: set[str] = set()
        if fault is not None:
            fault.before()
        answer = call(replace(op, run=_observed(op.run, rung, fault)))
        if rung:
            self._world.notify(rung)
        if fault is not None:
            fault.after()
        return answer


def _observed(run: Callable[..., Any], rung: set[str], fault: Fault | None) -> Callable[..., Any]:
    async def observed(tx: Tx, *rest: Any) -> Any:
        answer = await run(tx if fault is None else fault.around(tx), *rest)
        rung.update(tx.topics)  # type: ignore[attr-defined]
        return answer

    return observed
