"""`holdfast serve`: the site on an address of its own. Beyond loopback it asks for tokens, always.

Beside the site it keeps house, unless told otherwise. Where all workers are elsewhere and speak HTTP, nobody else would
rescue the jobs of one that was lost, fire schedules, or delete what is old; where there are others, they share it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

import uvicorn

from ..app import App
from ..errors import ConfigError, HoldfastError
from .settings import LOOPBACK, Auth, WebSettings
from .site import build

logger: Final = logging.getLogger("holdfast.web")

_Work: TypeAlias = "Callable[[], Coroutine[Any, Any, None]]"
_GRACE: Final = 2.0
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - to recognise it


def settings_for(
    host: str, *, auth: Auth | None, hosts: tuple[str, ...], behind_proxy: bool, any_task: bool
) -> WebSettings:
    """The settings of a site on this address."""
    local = is_loopback(host)
    chosen: Auth = auth or ("off" if local else "required")
    if chosen == "off" and not local:
        raise ConfigError(f"others can reach {host}, so auth cannot be off; make a token: holdfast tokens create")
    if not local and not hosts:
        raise ConfigError(f"say under which names {host} is called, such as --allow-host jobs.example.com")
    names = (*hosts, *LOOPBACK, *(() if host in _EVERYWHERE else (host,)))
    return WebSettings(auth=chosen, hosts=names, secure=behind_proxy, any_task=any_task)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def serve(
    app: App,
    settings: WebSettings,
    host: str,
    port: int,
    *,
    behind_proxy: bool,
    chores: bool = True,
    ready: Callable[[str, Auth], None] = lambda address, auth: None,
) -> None:
    """Serve until it is told to stop; `ready` is told the address once it can be called."""
    config = uvicorn.Config(
        build(app, settings),
        host=host,
        port=port,
        proxy_headers=behind_proxy,
        server_header=False,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=16 * 1024,
    )
    beside = [lambda: _keep_house(app)] if chores else []
    _Server(config, lambda address: ready(address, settings.auth), beside).run()


async def _keep_house(app: App) -> None:
    try:
        async with app.keeper(grace=_GRACE):
            await asyncio.Event().wait()
    except HoldfastError as error:
        logger.error("this site does not keep house: %s", error)


class _Server(uvicorn.Server):
    """Tells when it listens, and where: the port may have been chosen by the system."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None], beside: Sequence[_Work] = ()) -> None:
        super().__init__(config)
        self._ready = ready
        self._beside = beside
        self._tasks: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Not waited for: a site whose store is away says so, and does not keep its callers waiting.
        self._tasks = [asyncio.create_task(work()) for work in self._beside]
        for server in self.servers:
            host, port = server.sockets[0].getsockname()[:2]
            self._ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._tasks:
            task.cancel()
        await super().shutdown(sockets)
        await asyncio.gather(*self._tasks, return_exceptions=True)
