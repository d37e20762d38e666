"""A client's access to the store, blocking or async as its caller. On a blocking line no coroutine suspends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from ..storage.blobs import Awaiting, Blocking, Reach
from ..storage.port import Listener, Op
from ..storage.step import step
from ..worker.running.admission import ReadsAndWrites

P = ParamSpec("P")
T = TypeVar("T")


class Line(Reach, ReadsAndWrites, Protocol):
    """The store, the disk, wake-ups, and everything else that has a blocking and an async form."""

    async def wait_for_notice(self, listener: Listener, timeout: float) -> bool:
        """Wait for a wake-up."""
        ...

    async def join(self, connection: object | None, op: Op[T]) -> T:
        """Write in the caller's open transaction, or without one in a transaction of our own."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    async def call(
        self, blocking: Callable[P, T], awaiting: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call the form that the caller can use."""
        ...


@dataclass(frozen=True, slots=True)
class BlockingLine(Blocking):
    """For a caller that may block."""

    async def aread(self, op: Op[T]) -> T:
        return self.store.read(op)

    async def awrite(self, op: Op[T]) -> T:
        return self.store.write(op)

    async def wait_for_notice(self, listener: Listener, timeout: float) -> bool:
        return listener.wait(timeout)

    async def join(self, connection: object | None, op: Op[T]) -> T:
        return self.store.write(op) if connection is None else self.store.within(connection, op)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - code on a blocking line runs on no event loop

    async def call(
        self, blocking: Callable[P, T], awaiting: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return blocking(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class AwaitingLine(Awaiting):
    """For a caller on an event loop."""

    async def aread(self, op: Op[T]) -> T:
        return await self.store.aread(op)

    async def awrite(self, op: Op[T]) -> T:
        return await self.store.awrite(op)

    async def wait_for_notice(self, listener: Listener, timeout: float) -> bool:
        return await listener.await_ring(timeout)

    async def join(self, connection: object | None, op: Op[T]) -> T:
        return await (self.store.awrite(op) if connection is None else self.store.awithin(connection, op))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def call(
        self, blocking: Callable[P, T], awaiting: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await awaiting(*args, **kwargs)


def each(found: AsyncGenerator[T, None]) -> Iterator[T]:
    """Iterate over a generator that is on a blocking line."""
    try:
        while True:
            yield step(cast(Any, found.__anext__()))
    except StopAsyncIteration:
        return
    finally:
        step(cast(Any, found.aclose()))
