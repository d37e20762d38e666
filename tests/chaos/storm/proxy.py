"""A way to Postgres that can be cut: a process between workers and the server, with several lines that break apart.

Orders come as lines of JSON: {"line": 0, "how": "blackhole", "seconds": 3}; -1 is every line. It dies with its parent.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.worker.processes.parent import die_with_parent

_LATE = 0.05


class Link:
    """One connection of a client, and its own to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.is_half_closed = False

    def cut(self) -> None:
        """Both ends find out only when they use it."""
        self.client.transport.abort()
        self.server.transport.abort()

    def half_close(self) -> None:
        """The client hears that the server has nothing more to say; the server hears nothing."""
        self.is_half_closed = True
        if self.client.can_write_eof():
            self.client.write_eof()


class Line:
    def __init__(self, socket: str, dice: random.Random) -> None:
        self._socket = socket
        self._dice = dice
        self._links: set[Link] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._delay = 0.0
        self._commits_to_cut = 0

    async def break_(self, how: str, seconds: float) -> None:
        match how:
            case "cut":
                self._each(Link.cut)
            case "half-close":
                self._each(Link.half_close)
            case "commit":
                self._commits_to_cut += 3
            case "blackhole":
                self._open.clear()
                await asyncio.sleep(seconds)
                if self._dice.random() < 0.5:
                    self._each(Link.cut)
                self._open.set()
            case "delay":
                self._delay = 0.2
                await asyncio.sleep(seconds)
                self._delay = 0.0
            case "heal":
                self._commits_to_cut, self._delay = 0, 0.0
                self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        try:
            answers, server = await asyncio.open_unix_connection(self._socket)
        except OSError:
            writer.transport.abort()
            return
        link = Link(writer, server)
        self._links.add(link)
        try:
            await asyncio.gather(self._pump_up(link, reader), self._pump_down(link, answers))
        except OSError:
            pass
        finally:
            self._links.discard(link)
            link.cut()

    async def _pump_up(self, link: Link, reader: asyncio.StreamReader) -> None:
        while got := await reader.read(65536):
            await self._pass()
            link.server.write(got)
            await link.server.drain()
            if self._commits_to_cut and b"commit" in got.lower():
                # The server has it, and its answer never comes.
                self._commits_to_cut -= 1
                link.client.transport.abort()
                await asyncio.sleep(_LATE)
                break
        link.server.close()

    async def _pump_down(self, link: Link, reader: asyncio.StreamReader) -> None:
        while got := await reader.read(65536):
            await self._pass()
            if not link.is_half_closed:
                link.client.write(got)
                await link.client.drain()
        link.client.close()

    async def _pass(self) -> None:
        await self._open.wait()
        if self._delay:
            await asyncio.sleep(self._dice.uniform(0.2, 1.0) * self._delay)

    def _each(self, act: Callable[[Link], None]) -> None:
        for link in list(self._links):
            with suppress(OSError):
                act(link)


async def main(socket: str, count: int, seed: int) -> None:
    dice = random.Random(seed)
    lines = [Line(socket, dice) for _ in range(count)]
    servers = [await asyncio.start_server(line.serve, "127.0.0.1", 0) for line in lines]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    under_way: set[asyncio.Task[Any]] = set()
    while text := await orders.readline():
        order = json.loads(text)
        for line in lines if order["line"] < 0 else [lines[order["line"]]]:
            task = asyncio.create_task(line.break_(order["how"], order["seconds"]))
            under_way.add(task)
            task.add_done_callback(under_way.discard)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[4]), signal.SIGKILL)
    with suppress(PermissionError):
        # A network does not wait for a core; on a busy machine this would be slower than what it stands for.
        os.nice(-10)
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
