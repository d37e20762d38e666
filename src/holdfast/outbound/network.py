"""Make connections: resolve a name, check every address it resolves to, and connect to one of those.

The name is not resolved again in between, so a DNS answer that changes between two lookups gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Final, TypeAlias

import httpcore2

from ..errors import RequestFailed, UrlRefused
from .connections import Connections
from .line import Line
from .policy import Policy

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a name to its addresses."""
Connect: TypeAlias = "Callable[[str, int, float | None], Awaitable[httpcore2.AsyncNetworkStream]]"
"""Connects to one address within a number of seconds."""

CONNECTIONS: Final = 1_000
KEPT: Final = 100
KEPT_SECONDS: Final = 5.0


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to permitted addresses only."""

    def __init__(self, policy: Policy, resolve: Resolve, connect: Connect) -> None:
        self._policy = policy
        self._resolve = resolve
        self._connect = connect

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        until = loop.time() + (timeout or 60.0)
        try:
            async with asyncio.timeout_at(until):
                addresses = await self._checked(host, port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"{host} could not be looked up in time") from None
        failure: Exception = httpcore2.ConnectTimeout(f"no address of {host} answered in time")
        for n, address in enumerate(addresses):
            # Each address gets a share of the time, so that one that never answers does not use up all of it.
            share = (until - loop.time()) / (len(addresses) - n)
            try:
                return await self._to(address, port, share)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        raise UrlRefused("requests go over the network, not to sockets of this machine")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _checked(self, host: str, port: int) -> list[str]:
        try:
            addresses = list(dict.fromkeys(await self._resolve(host, port)))
        except (OSError, UnicodeError) as error:
            raise RequestFailed("dns", f"{host} has no address: {error}") from error
        if not addresses:
            raise RequestFailed("dns", f"{host} has no address")
        # One refused address refuses the name: to mix public and private ones is an attack, or a mistake.
        if refused := [address for address in addresses if not self._policy.permits(address)]:
            raise UrlRefused(f"{host} leads to {refused[0]}, which is not a public address")
        return addresses

    async def _to(self, address: str, port: int, timeout: float) -> httpcore2.AsyncNetworkStream:
        stream = await self._connect(address, port, timeout)
        peer = stream.get_extra_info("server_addr")
        if peer is not None and not self._policy.permits(peer[0]):
            await stream.aclose()
            raise UrlRefused(f"the connection to {address} came out at {peer[0]}")
        return stream


async def resolve(host: str, port: int) -> list[str]:
    """Resolve by the system's resolver, in the order that it prefers."""
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_lookups(), look_up)
    return [str(address[0]) for *_, address in found]


async def connect(address: str, port: int, timeout: float | None) -> httpcore2.AsyncNetworkStream:
    try:
        async with asyncio.timeout(timeout):
            _, line = await asyncio.get_running_loop().create_connection(Line, address, port)
    except TimeoutError:
        raise httpcore2.ConnectTimeout(f"{address} did not answer in time") from None
    except OSError as error:
        raise httpcore2.ConnectError(str(error)) from error
    return line


def connections_of(network: GuardedNetwork, trust: ssl.SSLContext | None) -> Connections:
    """Return the connections of one event loop."""
    return Connections(network, trust or _system_trust(), most=CONNECTIONS, kept=KEPT, seconds=KEPT_SECONDS)


@cache
def _lookups() -> ThreadPoolExecutor:
    # A separate thread pool: a name server that hangs must not use up the threads of others.
    return ThreadPoolExecutor(32, thread_name_prefix="holdfast-dns")


@cache
def _system_trust() -> ssl.SSLContext:
    # Reading the certificates takes 100 ms.
    return httpcore2.default_ssl_context()
