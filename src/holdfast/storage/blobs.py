"""Storage of bytes that are too large for a row: files beside a SQLite database, else a table.

Written once for blocking and async callers, as operations are: a coroutine over a blocking `Reach` never suspends.
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
"""Set by operations that free space: they may run on a full disk."""

More: TypeAlias = "Callable[[], Awaitable[bytes]]"
"""Returns the next part to write: PART bytes, fewer at the end, then none."""


class Reach(Protocol):
    """Access to the store and the disk for a caller, blocking or async."""

    @property
    def store(self) -> Store: ...

    async def read(self, op: Op[T]) -> T: ...

    async def write(self, op: Op[T]) -> T: ...

    async def run(self, call: Callable[..., T], *args: Any) -> T:
        """Call something that may block."""
        ...


class Blobs(Protocol):
    """Each blob is written whole, once, under an id of its own whose row exists before the first byte."""

    @property
    def kind(self) -> str:
        """ "files" or "table"."""
        ...

    async def write(self, reach: Reach, blob: str, more: More) -> None:
        """Write a blob; it is safely on the disk when this returns. StorageFull, and nothing left, without room."""
        ...

    async def read(self, reach: Reach, blob: str, start: int, length: int) -> bytes | None:
        """Return a piece that lies within one part; None where there is no such blob."""
        ...

    async def remove(self, reach: Reach, blob: str) -> None:
        """Remove its bytes, if there are any."""
        ...

    def strays(self, since: float, until: float) -> list[str]:
        """Return blobs with bytes from that time (seconds since 1970), with or without a row. Blocks."""
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
        # A cancelled caller, however often cancelled, waits for the thread: a file must not be closed while in use. No
        # task in between, which a closing loop would cancel too.
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
    """Blobs in the database, a row for each part, each committed by itself: no transaction grows with the blob."""

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
        """Do nothing: its table goes with the others."""


def _add_part(blob: str, n: int, data: bytes) -> Op[None]:
    return Op(lambda tx: ops.add_part(tx, blob, n, data), single=True)


async def remove_all(reach: Reach, blobs: Collection[str]) -> None:
    """Remove blobs marked for removal: first their bytes, then their rows."""
    for blob in blobs:
        await reach.store.blobs.remove(reach, blob)
    if blobs:
        await reach.write(Op(lambda tx: ops.drop(tx, blobs), patience=PATIENCE))
