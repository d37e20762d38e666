"""How fast jobs are enqueued over HTTP by one server process, beside a bare Starlette route that parses the same body.

`python -m benchmarks.site` prints requests or jobs per second, by the clock and by the server's own CPU time: the
second says more on a machine where others work too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import holdfast
from holdfast.web import asgi

CONNECTIONS: Final = 64
BULK: Final = 500
_JOB: Final = {"task": "send", "arguments": {"to": "ada@example.com", "subject": "hello", "attempt": 1}}


@dataclass(frozen=True, slots=True)
class Speed:
    """How many a second, by the clock and by the CPU time of the server."""

    wall: float
    cpu: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["measure", "serve"], default="measure", nargs="?")
    parser.add_argument("what", choices=["bare", "ours"], default="ours", nargs="?")
    parser.add_argument("--store", default="bench.db")
    parser.add_argument("--requests", type=int, default=4_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if options.command == "serve":
        _serve(options.what, options.store)
        return 0
    for _ in range(options.runs):
        bare = measure("bare", "/api/v1/jobs", _JOB, options.requests)
        ours = measure("ours", "/api/v1/jobs", _JOB, options.requests)
        many = measure("ours", "/api/v1/jobs/bulk", {"jobs": [_JOB] * BULK}, max(40, options.requests // 40), 4)
        print(f"bare route   {bare.wall:9,.0f}/s by the clock {bare.cpu:9,.0f} per CPU second")
        print(f"one by one   {ours.wall:9,.0f}/s              {ours.cpu:9,.0f}                "
              f"{ours.wall / bare.wall:.2f} × and {ours.cpu / bare.cpu:.2f} × the bare route")  # fmt: skip
        print(f"by {BULK}       {many.wall * BULK:9,.0f}/s              {many.cpu * BULK:9,.0f} jobs")
    return 0


def measure(what: str, path: str, body: Any, requests: int, connections: int = CONNECTIONS) -> Speed:
    """Send so many requests over so many connections to a server of its own."""
    with _server(what) as (port, pid):
        asyncio.run(_send(port, path, body, connections * 4, connections))
        cpu, start = _cpu(pid), time.perf_counter()
        asyncio.run(_send(port, path, body, requests, connections))
        took = time.perf_counter() - start
        return Speed(requests / took, requests / (_cpu(pid) - cpu))


async def _send(port: int, path: str, body: Any, requests: int, connections: int) -> None:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
    message = head.encode() + b"\r\n\r\n" + data
    await asyncio.gather(*(_one_line(port, message, requests // connections) for _ in range(connections)))


async def _one_line(port: int, message: bytes, requests: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(requests):
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")), head
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]))
    writer.close()
    await writer.wait_closed()


@contextmanager
def _server(what: str) -> Iterator[tuple[int, int]]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.site", "serve", what, "--store", str(Path(folder) / "bench.db")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process.pid
        finally:
            process.terminate()
            process.wait(20)


def _serve(what: str, store: str) -> None:
    app = holdfast.App(store)

    @app.task
    async def send(to: str, subject: str, attempt: int) -> None: ...

    app.migrate()
    config = uvicorn.Config(_bare() if what == "bare" else asgi(app, auth="off"), port=0, log_level="error",
                            access_log=False)  # fmt: skip
    server = _Announcing(config)
    server.run()


class _Announcing(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


def _bare() -> Starlette:
    async def parse(request: Request) -> Response:
        found = json.loads(await request.body())
        return Response(json.dumps({"task": found["task"]}), 201, media_type="application/json")

    return Starlette(routes=[Route("/api/v1/jobs", parse, methods=["POST"])])


def _cpu(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    raise SystemExit(main())
