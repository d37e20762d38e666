"""A real HTTP server on loopback that answers as a test has written down, byte by byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass(slots=True)
class Seen:
    """One request as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes
    sni: str = ""


@dataclass(slots=True)
class Server:
    """`script` are the answers in turn, the last one for good: bytes, or a function that gets the writer."""

    script: list[Any] = field(default_factory=lambda: [OK])
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    sni: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.seen.append(Seen(head[0], headers, body, self.sni))
        self.changed.set()
        answer: bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if callable(answer):
            await answer(writer)
            return False
        writer.write(answer)
        await writer.drain()
        return True


@asynccontextmanager
async def serving(*script: Any, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server for the time of a block. Handlers that are still busy at its end are cancelled."""
    server = Server(list(script) or [OK])
    busy: set[asyncio.Task[Any]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        busy.add(task)
        try:
            await server.serve(reader, writer)
        except asyncio.CancelledError:
            writer.close()
        finally:
            busy.discard(task)

    if tls is not None:
        tls.sni_callback = lambda _, name, __: setattr(server, "sni", name or "")
    listening = await asyncio.start_server(accept, host, 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(busy):
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer; `Retry_After="5"` is its header Retry-After."""
    lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body
