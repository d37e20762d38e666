"""Server-sent events: lines of text that a browser reads as they come, and asks for again by the last id it saw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from starlette.responses import StreamingResponse

MEDIA: Final = "text/event-stream"
_QUIET: Final = 15.0
_PING: Final = b": quiet\n\n"


@dataclass(frozen=True, slots=True)
class Said:
    """One event."""

    data: str
    event: str | None = None
    id: str | None = None

    def encode(self) -> bytes:
        # A line break in an id or a name would begin a field of its own.
        lines = [f"{name}: {value}" for name, value in (("id", self.id), ("event", self.event)) if value is not None]
        assert not any("\n" in line or "\r" in line for line in lines)
        lines += [f"data: {line}" for line in self.data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        return ("\n".join(lines) + "\n\n").encode()


def stream(source: AsyncIterator[Said]) -> StreamingResponse:
    """An answer that goes on as long as its source, with a sign of life when that is quiet."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_alive(source), media_type=MEDIA, headers=headers)


async def _alive(source: AsyncIterator[Said]) -> AsyncIterator[bytes]:
    coming = asyncio.ensure_future(anext(source, None))
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=_QUIET)
            if not done:
                yield _PING
                continue
            said = coming.result()
            if said is None:
                return
            yield said.encode()
            coming = asyncio.ensure_future(anext(source, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()
