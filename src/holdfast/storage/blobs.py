"""Where bytes are that are too many for a row. The store chooses: files beside a SQLite database, else a table.

Written once for both colours of caller, as operations are: a coroutine over a `Reach` that blocks never suspends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from ..model.artifacts import PART
from .ops.artifacts import blobs as ops
from .port import Op, Store

T = TypeVar("T")

PATIENCE: Final = 5.0
"""Said by whoever makes room: a full disk lets that through."""

More: TypeAlias = "Callable[[], Awaitable[bytes]]"
"""The next part of what is to be written: PART bytes, fewer at the end, then none."""


class Reach(Protocol):
    """How a caller reaches the store and the disk, in its own colour."""

    @property
    def store(self) -> Store: ...

    async def read(self, op: Op[T]) -> T: ...

    async def write(self, op: Op[T]) -> T: ...

    async def run(self, call: Callable[..., T], *args: Any) -> T:
        """Call something that may block."""
        ...


class Blobs(Protocol):
    """Each blob is written whole, once, under an id of its own that has its row before the first byte."""

    @property
    def kind(self) -> str:
        """ "files" or "table"."""
        ...

    async def write(self, reach: Reach, blob: str, more: More) -> None:
        """Write it, safely on the disk when this returns. StorageFull where there is no room; then nothing is left."""
        ...

    async def read(self, reach: Reach, blob: str, start: int, length: int) -> bytes | None:
        """A piece that lies within one part; None where there is no such blob."""
        ...

    async def remove(self, reach: Reach, blob: str) -> None:
        """Remove its bytes, if there are any."""
        ...

    def strays(self, since: float, until: float) -> list[str]:
        """Blobs of which there are bytes from that time (seconds since 1970), with or without a row. Blocks."""
        ...

    def clear(self) -> None:
        """Remove all bytes of all blobs that are not in the database itself."""
        ...


@dataclass(frozen=True, slots=True)
class Blocking:
    """For a caller that may block."""

    open: Callable[[], Store]

    @property
    def store(self) -> Store:
        return self.open()

    async def read(self, op: Op[T]) -> T:
        return self.store.read(op)

    async def write(self, op: Op[T]) -> T:
        return self.store.write(op)

    async def run(self, call: Callable[..., T], *args: Any) -> T:
        return call(*args)


@dataclass(frozen=True, slots=True)
class Awaiting:
    """For a caller on an event loop."""

    open: Callable[[], Store]

    @property
    def store(self) -> Store:
        return self.open()

    async def read(self, op: Op[T]) -> T:
        return await self.store.aread(op)

    async def write(self, op: Op[T]) -> T:
        return await self.store.awrite(op)

    async def run(self, call: Callable[..., T], *args: Any) -> T:
        # Whoever is cancelled, however often, waits for the thread: a file must not be closed under it. No task stands
        # in between, which a loop that closes would cancel too.
        bound = partial(copy_context().run, call, *args)
        work: asyncio.Future[T] = asyncio.get_running_loop().run_in_executor(None, bound)
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError as error:
                cancelled = cancelled or error
        if cancelled is None:
            return work.result()
        work.exception()
        raise cancelled


class TableBlobs:
    """In the database, a row for each part, each committed by itself: no transaction grows with the blob."""

    kind = "table"

    async def write(self, reach: Reach, blob: str, more: More) -> None:
        n = 0
        while data := await more():
            await reach.write(_add_part(blob, n, data))
            n += 1

    async def read(self, reach: Reach, blob: str, start: int, length: int) -> bytes | None:
        n, offset = divmod(start, PART)
        data = await reach.read(Op(lambda tx: ops.read_part(tx, blob, n), single=True))
        return None if data is None else data[offset : offset + length]

    async def remove(self, reach: Reach, blob: str) -> None:
        while await reach.write(Op(lambda tx: ops.drop_parts(tx, blob), single=True)):
            pass

    def strays(self, since: float, until: float) -> list[str]:
        return []

    def clear(self) -> None:
        """Its table goes with the others."""


def _add_part(blob: str, n: int, data: bytes) -> Op[None]:
    return Op(lambda tx: ops.add_part(tx, blob, n, data), single=True)


async def remove_all(reach: Reach, blobs: Collection[str]) -> None:
    """Remove doomed blobs: first their bytes, then their rows."""
    for blob in blobs:
        await reach.store.blobs.remove(reach, blob)
    if blobs:
        await reach.write(Op(lambda tx: ops.drop(tx, blobs), patience=PATIENCE))
