"""Clients that send half a request, or read nothing, take neither the site nor its log from others."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

import holdfast
from holdfast.web import connections
from holdfast.web.connections import Repeats, bounded_protocol
from tests.patience import SOON
from tests.web.web_kit import listening, served

HALF = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nX-Half: "
BODY = (
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
)


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A site with short limits."""
    for name in ("HEAD_SECONDS", "STALL_SECONDS", "UNREAD_SECONDS", "LINGER_SECONDS"):
        monkeypatch.setattr(connections, name, 1.0)
    app = holdfast.App(tmp_path / "jobs.db")
    with served(app, http=bounded_protocol(), auth="off") as url:
        yield "127.0.0.1", urlsplit(url).port or 0
    app.close()


def is_closed_soon(client: socket.socket) -> bool:
    """Read until the other side ends it."""
    client.settimeout(SOON)
    try:
        while client.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("sent", [b"", b"G", HALF], ids=["nothing", "a letter", "half a head"])
def test_a_request_whose_head_does_not_come_is_given_up(address: tuple[str, int], sent: bytes) -> None:
    with socket.create_connection(address) as client:
        client.sendall(sent)
        assert is_closed_soon(client)


def test_a_head_that_comes_in_drops_is_given_up(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as client:
        client.sendall(HALF)
        deadline = time.monotonic() + SOON
        while not select.select([client], [], [], 0.2)[0]:
            client.sendall(b"x")
            assert time.monotonic() < deadline
        assert is_closed_soon(client)


def test_the_next_request_on_a_connection_has_the_same_limit(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as client:
        client.sendall(HALF + b"\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 200")
        client.sendall(HALF)
        assert is_closed_soon(client)


def test_a_body_that_stalls_is_given_up(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as client:
        client.sendall(BODY)
        assert is_closed_soon(client)


def test_a_body_that_comes_in_drops_is_given_up(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 2.0)
    with socket.create_connection(address) as client:
        client.sendall(BODY)
        deadline = time.monotonic() + SOON
        while not select.select([client], [], [], 0.2)[0]:
            client.sendall(b" ")
            assert time.monotonic() < deadline
        assert is_closed_soon(client)


def keep_sending(client: socket.socket) -> None:
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        client.sendall(b" ")
        time.sleep(0.1)


def test_who_is_refused_cannot_go_on_sending(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as client:
        client.sendall(BODY.replace(b"/api/v1/jobs", b"/api/v1/nowhere"))
        assert client.recv(65_536).startswith(b"HTTP/1.1 404")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            keep_sending(client)


def test_a_body_that_takes_its_time_arrives(address: tuple[str, int]) -> None:
    document = json.dumps({"task": "unknown", "args": []}).encode()
    head = BODY[:-1].replace(b"1000", str(len(document)).encode())
    with socket.create_connection(address) as client:
        client.sendall(head)
        for byte in document:
            client.sendall(bytes([byte]))
            time.sleep(0.04)  # of a client, longer than the limit for a head altogether
        assert client.recv(65_536).startswith(b"HTTP/1.1 4")


async def endless(scope: Scope, receive: Receive, send: Send) -> None:
    """An answer that goes on for as long as somebody takes it."""

    async def frames() -> AsyncIterator[bytes]:
        while True:
            yield b"data: x\n\n" * 1_000
            await asyncio.sleep(0.001)

    if scope["type"] == "http":
        await StreamingResponse(frames(), media_type="text/event-stream")(scope, receive, send)


def test_a_client_that_never_reads_is_let_go_and_one_that_reads_slowly_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 1.0)
    protocol = bounded_protocol()
    with listening(endless, protocol) as url, socket.socket() as deaf, socket.socket() as slow:
        for client in (deaf, slow):
            client.settimeout(SOON)
            client.connect(("127.0.0.1", urlsplit(url).port or 0))
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(1)
        deadline = time.monotonic() + SOON
        while len(protocol.admitted._open) == 2:
            assert slow.recv(1_000_000)
            assert time.monotonic() < deadline, "the one that never reads is still there"
            time.sleep(0.02)
        assert slow.recv(1_000_000)
        assert is_closed_soon(deaf)


@contextmanager
def serving(folder: Path, *, files: int) -> Iterator[tuple[tuple[str, int], Path]]:
    """A real `holdfast serve` with so many file descriptors; its address and its log."""
    app = holdfast.App(folder / "jobs.db")
    app.migrate()
    app.close()
    log = folder / "serve.log"
    command = [sys.executable, "-m", "holdfast", "serve", "--store", str(folder / "jobs.db"), "--port", "0"]
    limited = f"import os, resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}));"
    start = [sys.executable, "-c", f"{limited} os.execv({command[0]!r}, {command!r})"]
    with log.open("wb") as out, subprocess.Popen(start, stdout=subprocess.PIPE, stderr=out, env=os.environ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            port = urlsplit(next(word for word in line.split() if word.startswith("http"))).port or 0
            yield ("127.0.0.1", port), log
        finally:
            process.terminate()
            process.wait(SOON)


@pytest.mark.timeout(200)
def test_eleven_hundred_half_sent_requests_keep_nobody_out_and_fill_no_log(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, hard), hard))
    try:
        # As many as a system gives by default, where they were all used up.
        with serving(tmp_path, files=1_024) as (address, log), ExitStack() as held:
            for half in (HALF, BODY):
                for _ in range(1_100):
                    client = held.enter_context(socket.create_connection(address, timeout=SOON))
                    client.sendall(half)
                for _ in range(5):
                    began = time.monotonic()
                    answer = httpx2.get(f"http://{address[0]}:{address[1]}/api/v1/health", timeout=SOON)
                    assert answer.status_code == 200
                    # It does not wait until the half-sent requests are given up.
                    assert time.monotonic() - began < connections.HEAD_SECONDS
            assert log.stat().st_size < 20_000, log.read_text()[-2_000:]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_anybody_can_cause_is_logged_a_few_times_and_then_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(connections.time, "monotonic", lambda: now[0])
    repeats = Repeats()

    def passes(level: int, text: str, error: Exception | None = None) -> str | None:
        given = (type(error), error, None) if error else None
        record = logging.LogRecord("x", level, "", 0, text, (), given)
        return record.getMessage() if repeats.filter(record) else None

    assert [passes(logging.WARNING, "bad request") for _ in range(10)].count(None) == 7
    assert [passes(logging.ERROR, "full", OSError(24, "too many open files")) for _ in range(10)].count(None) == 7
    assert None not in [passes(logging.ERROR, "a defect of ours", ValueError()) for _ in range(10)]
    now[0] += 61.0
    assert passes(logging.WARNING, "bad request") == "bad request (7 more were not logged)"
