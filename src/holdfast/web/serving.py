"""`holdfast serve`: the site on an address of its own. Beyond loopback it asks for tokens, always."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from ..app import App
from ..errors import ConfigError
from .settings import LOOPBACK, Auth, WebSettings
from .site import build

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
    _Server(config, lambda address: ready(address, settings.auth)).run()


class _Server(uvicorn.Server):
    """Tells when it listens, and where: the port may have been chosen by the system."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            host, port = server.sockets[0].getsockname()[:2]
            self._ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
