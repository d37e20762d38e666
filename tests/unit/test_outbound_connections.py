"""Connections that rest between requests: used again, ended in time, and never more than there may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import httpcore2
import pytest

from holdfast.outbound.network import ConnectionPool, connect
from tests.patience import SOON
from tests.unit.http_kit import Server, answer, serving


class Network(httpcore2.AsyncNetworkBackend):
    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        return await connect(host, port, 5)


def connections(*, most: int = 10, kept: int = 10, seconds: float = 60.0) -> ConnectionPool:
    trust = httpcore2.default_ssl_context()
    return ConnectionPool(Network(), trust, most=most, kept=kept, seconds=seconds)


async def fetch(through: ConnectionPool, server: Server) -> int:
    request = httpcore2.Request("GET", server.url, headers={"host": "here"})
    connection, response = await through.send(request)
    await response.aread()
    await response.aclose()
    await through.give(connection, request.url)
    return response.status


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), SOON))


def test_one_that_rests_is_used_again() -> None:
    async def test() -> None:
        async with serving(answer(200, b"ok")) as server:
            through = connections()
            for _ in range(5):
                assert await fetch(through, server) == 200
            assert server.connections == 1
            await through.aclose()

    run(test)


def test_those_at_once_have_one_each_and_so_many_rest_afterwards() -> None:
    async def test() -> None:
        async with serving(answer(200, b"ok")) as server:
            through = connections(kept=2)
            await asyncio.gather(*(fetch(through, server) for _ in range(5)))
            opened = server.connections
            await asyncio.gather(*(fetch(through, server) for _ in range(2)))
            assert (opened, server.connections, len(through._resting)) == (5, 5, 2)
            await through.aclose()

    run(test)


def test_one_that_has_rested_for_too_long_is_not_used() -> None:
    async def test() -> None:
        async with serving(answer(200, b"ok")) as server:
            through = connections(seconds=-1.0)
            for _ in range(3):
                await fetch(through, server)
            assert server.connections == 3
            await through.aclose()

    run(test)


def test_one_that_its_peer_has_ended_is_not_used() -> None:
    async def farewell(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        writer.close()

    async def test() -> None:
        async with serving(farewell) as server:
            through = connections()
            for _ in range(3):
                assert await fetch(through, server) == 200
                resting = next(iter(through._resting), None)
                while resting is not None and not resting.has_expired():
                    await asyncio.sleep(0)
            await through.aclose()

    run(test)


def test_no_more_than_there_may_be_are_open_at_once() -> None:
    async def test() -> None:
        async with serving(answer(200, b"ok")) as server:
            through = connections(most=1)
            await asyncio.gather(*(fetch(through, server) for _ in range(4)))
            assert server.connections == 1
            await through.aclose()

    run(test)


def test_a_failure_leaves_room_for_the_next() -> None:
    async def test() -> None:
        async with serving(answer(200, b"ok")) as server:
            through = connections(most=1)
            gone = httpcore2.Request("GET", "http://127.0.0.1:1/", headers={"host": "nobody"})
            with pytest.raises(httpcore2.ConnectError):
                await through.send(gone)
            assert await fetch(through, server) == 200
            await through.aclose()

    run(test)
