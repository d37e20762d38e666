"""The guard: no URL of the corpus reaches a server on this machine, whatever names resolve to."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter

import httpcore2
import pytest

from holdfast.errors import RequestFailed, UrlRefused
from holdfast.outbound import network
from holdfast.outbound.client import HttpClient
from holdfast.outbound.policy import Policy
from tests.unit.http_kit import serving
from tests.unit.ssrf_corpus import FLIPS, PUBLIC, urls


class World:
    """A resolver whose answers change, and a network where public addresses refuse and all others are real."""

    def __init__(self) -> None:
        self.looks: Counter[str] = Counter()
        self.dialled: list[str] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        answers = FLIPS.get(host, [["127.0.0.1"]])
        answer = answers[min(self.looks[host], len(answers) - 1)]
        self.looks[host] += 1
        return answer

    async def connect(self, address: str, port: int, timeout: float | None) -> httpcore2.AsyncNetworkStream:
        self.dialled.append(address)
        if address == PUBLIC:
            raise httpcore2.ConnectError("refused")
        return await network.connect(address, port, timeout)


def test_no_url_of_the_corpus_reaches_this_machine() -> None:
    async def test() -> None:
        world = World()
        async with serving() as canary, serving(host=_second_home()) as canary6:
            policy = Policy(allow_http=True, ports=(canary.port, canary6.port))
            client = HttpClient(policy, resolve=world.resolve, connect=world.connect)
            tried = 0
            for port in (canary.port, canary6.port):
                for url in urls(port):
                    for _ in range(3 if "example" in url else 1):
                        tried += 1
                        with pytest.raises((UrlRefused, RequestFailed)):
                            await client.request("GET", url, timeout=2)

            assert len(set(urls(canary.port))) >= 200
            assert tried > 500
            assert canary.connections == canary6.connections == 0
            assert set(world.dialled) == {PUBLIC}

    asyncio.run(asyncio.wait_for(test(), 50))


def _second_home() -> str:
    """The other loopback, where the machine has it."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return "::1"
    except OSError:
        return "127.0.0.2"


def test_the_server_of_that_test_can_be_reached_where_it_is_allowed() -> None:
    async def test() -> None:
        world = World()
        async with serving() as canary:
            policy = Policy(allow_http=True, allow_private=True, ports=(canary.port,))
            client = HttpClient(policy, resolve=world.resolve, connect=world.connect)
            for host in ("127.0.0.1", "localhost", "spoofed.example.com", "[::ffff:127.0.0.1]"):
                assert (await client.request("GET", f"http://{host}:{canary.port}/")).status == 200
            assert canary.connections == 4

    asyncio.run(test())


def test_each_connection_looks_the_name_up_again_and_goes_to_what_it_was_told() -> None:
    async def test() -> None:
        world = World()
        client = HttpClient(Policy(), resolve=world.resolve, connect=world.connect)
        with pytest.raises(RequestFailed):
            await client.request("GET", "https://rebind.example/")
        with pytest.raises(UrlRefused, match="not a public address"):
            await client.request("GET", "https://rebind.example/")
        assert world.dialled == [PUBLIC]
        assert world.looks["rebind.example"] == 2

    asyncio.run(test())


def test_a_connection_that_comes_out_elsewhere_is_not_used() -> None:
    async def test() -> None:
        async with serving() as canary:

            async def public(host: str, port: int) -> list[str]:
                return [PUBLIC]

            async def astray(address: str, port: int, timeout: float | None) -> httpcore2.AsyncNetworkStream:
                return await network.connect("127.0.0.1", canary.port, timeout)

            client = HttpClient(Policy(allow_http=True), resolve=public, connect=astray)
            with pytest.raises(UrlRefused, match="came out at"):
                await client.request("GET", "http://example.com/")
            assert canary.seen == []

    asyncio.run(test())


@pytest.mark.parametrize("url", ["http://example.com/", "https://example.com:8443/", "https://example.com:80/"])
def test_only_https_at_its_own_port_is_open_by_default(url: str) -> None:
    with pytest.raises(UrlRefused):
        asyncio.run(HttpClient().request("GET", url))
