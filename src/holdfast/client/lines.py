"""How the lease API reaches the store, in the colour of its caller. Over the blocking one no coroutine suspends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..engine.lending import Stored
from ..storage.blobs import Awaiting, Blocking, Reach
from ..storage.port import Listener, Op

T = TypeVar("T")


class Line(Reach, Stored, Protocol):
    """The store, the disk, and the bell."""

    async def hear(self, listener: Listener, timeout: float) -> bool:
        """Wait for a ring."""
        ...


@dataclass(frozen=True, slots=True)
class BlockingLine(Blocking):
    """For a caller that may block."""

    async def aread(self, op: Op[T]) -> T:
        return self.store.read(op)

    async def awrite(self, op: Op[T]) -> T:
        return self.store.write(op)

    async def hear(self, listener: Listener, timeout: float) -> bool:
        return listener.wait(timeout)


@dataclass(frozen=True, slots=True)
class AwaitingLine(Awaiting):
    """For a caller on an event loop."""

    async def aread(self, op: Op[T]) -> T:
        return await self.store.aread(op)

    async def awrite(self, op: Op[T]) -> T:
        return await self.store.awrite(op)

    async def hear(self, listener: Listener, timeout: float) -> bool:
        return await listener.await_ring(timeout)
