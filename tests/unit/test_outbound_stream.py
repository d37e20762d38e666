"""Connections that rest between requests, and what goes over them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.outbound.client import HttpClient
from holdfast.outbound.network import LoopStream
from holdfast.outbound.policy import Policy
from tests.patience import SOON
from tests.unit.http_kit import answer

OK = answer(200, b"ok")


class Peer:
    """A server that keeps what it reads, piece by piece, and its connections."""

    def __init__(self) -> None:
        self.pieces: list[list[bytes]] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        pieces: list[bytes] = []
        self.pieces.append(pieces)
        while piece := await reader.read(1 << 20):
            pieces.append(piece)
            if b"".join(pieces).endswith(b"."):
                writer.write(OK)


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Peer, HttpClient]]:
    peer = Peer()
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    peer.port = server.sockets[0].getsockname()[1]
    client = HttpClient(Policy(allow_http=True, allow_private=("127.0.0.0/8",), ports=(peer.port,)))
    try:
        yield peer, client
    finally:
        await client.aclose()
        server.close()
        for writer in peer.writers:
            writer.close()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), SOON))


def test_the_head_goes_out_together_with_the_body() -> None:
    async def test() -> None:
        async with listening() as (peer, client):
            assert (await client.request("POST", peer.url, body=b"it.")).status == 200

            ((piece,),) = peer.pieces
            assert piece.startswith(b"POST / HTTP/1.1") and piece.endswith(b"it.")

    run(test)


@pytest.mark.parametrize("last_words", [b"", b"HTTP/1.1 408 Too Late\r\n\r\n"])
def test_a_connection_that_its_peer_ended_while_it_rested_is_not_used_again(
    last_words: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: asyncio.Queue[None] = asyncio.Queue()
    _tell(monkeypatch, ends)

    async def test() -> None:
        async with listening() as (peer, client):
            await client.request("POST", peer.url, body=b".")
            peer.writers[0].write(last_words)
            peer.writers[0].close()
            await ends.get()

            assert (await client.request("POST", peer.url, body=b".")).status == 200
            assert len(peer.writers) == 2

    run(test)


def test_what_comes_unasked_ends_a_connection_that_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: asyncio.Queue[None] = asyncio.Queue()
    received = LoopStream.data_received

    def data_received(line: LoopStream, data: bytes) -> None:
        received(line, data)
        if b"forged" in data:
            heard.put_nowait(None)

    monkeypatch.setattr(LoopStream, "data_received", data_received)

    async def test() -> None:
        async with listening() as (peer, client):
            await client.request("POST", peer.url, body=b".")
            peer.writers[0].write(answer(200, b"forged"))
            await heard.get()

            assert (await client.request("POST", peer.url, body=b".")).body == b"ok"
            assert len(peer.writers) == 2

    run(test)


def test_a_body_that_fills_every_buffer_arrives_whole() -> None:
    async def test() -> None:
        async with listening() as (peer, client):
            body = b"x" * 20_000_000 + b"."
            assert (await client.request("POST", peer.url, body=body)).status == 200
            assert b"".join(peer.pieces[0]).endswith(body)

    run(test)


def _tell(monkeypatch: pytest.MonkeyPatch, ends: asyncio.Queue[None]) -> None:
    ended = LoopStream.eof_received

    def eof_received(line: LoopStream) -> None:
        ended(line)
        ends.put_nowait(None)

    monkeypatch.setattr(LoopStream, "eof_received", eof_received)
