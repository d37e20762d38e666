"""`holdfast serve`: the site on its own address. Beyond loopback it always requires tokens.

It also runs maintenance, unless disabled. If all workers are remote and use HTTP, no other process would rescue the
jobs of a lost worker, run schedules or delete old data; if there are others, they share the work.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import uvicorn

from ..app import App
from ..errors import ConfigError, HoldfastError
from ..rules.hosts import is_loopback
from .connections import ACCEPTED_AT_ONCE, HEAD_SECONDS, bounded_protocol, log_sparingly
from .guard.hosts import MOST_HEADER_BYTES
from .settings import LOOPBACK, RATE, Auth, WebSettings
from .site import build

logger: Final = logging.getLogger("holdfast.web")

_Work: TypeAlias = "Callable[[], Coroutine[Any, Any, None]]"
_GRACE: Final = 2.0
_UNRESPONSIVE_MS: Final = 60_000
"""Milliseconds a peer may leave sent data unacknowledged."""
_BACKLOG: Final = 1_024
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - to recognise it


def settings_for(
    host: str,
    *,
    auth: Auth | None,
    hosts: tuple[str, ...],
    behind_proxy: bool,
    any_task: bool,
    origins: tuple[str, ...] = (),
    encrypted: bool = False,
    rate: float = RATE,
) -> WebSettings:
    """Return the settings of a site on this address.

    A host name other than this machine's own, or a proxy, means that others can reach the site: they need tokens.
    """
    local = is_loopback(host)
    chosen: Auth = auth or ("off" if local and not hosts and not behind_proxy else "required")
    if chosen == "off" and not local:
        raise ConfigError(
            f"other machines can reach {host}, so auth must be on; create a token: holdfast tokens create NAME"
        )
    if chosen == "off" and behind_proxy:
        raise ConfigError(
            "other machines come through the proxy, so auth must be on; create a token: holdfast tokens create NAME"
        )
    if chosen == "off" and "*" in hosts:
        raise ConfigError("without auth any web page could act on this site; list the hosts instead of *")
    if not local and not hosts:
        raise ConfigError(f"give the host names of {host or 'the site'}, such as --allow-host jobs.example.com")
    if not local and not behind_proxy and not encrypted:
        raise ConfigError(
            "tokens would cross the network unencrypted; give --cert and --key, or put an HTTPS proxy in front"
            " and use --behind-proxy"
        )
    own = () if host in _EVERYWHERE else (f"[{host}]" if ":" in host and not host.startswith("[") else host,)
    names = (*hosts, *LOOPBACK, *own)
    return WebSettings(
        auth=chosen, hosts=names, secure=behind_proxy or encrypted, any_task=any_task, origins=origins, rate=rate
    )


def serve(
    app: App,
    settings: WebSettings,
    host: str,
    port: int,
    *,
    behind_proxy: bool,
    chores: bool = True,
    cert: str | None = None,
    key: str | None = None,
    ready: Callable[[str, Auth], None] = lambda address, auth: None,
) -> None:
    """Serve until stopped; `ready` is called with the address once the site accepts requests."""
    config = uvicorn.Config(
        build(app, settings),
        host=host,
        port=port,
        proxy_headers=behind_proxy,
        ssl_certfile=cert,
        ssl_keyfile=key,
        server_header=False,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        http=bounded_protocol(),
        backlog=ACCEPTED_AT_ONCE,
    )
    log_sparingly()
    beside = [lambda: _run_maintenance(app)] if chores else []
    server = _Server(config, lambda address: ready(address, settings.auth), beside)
    try:
        server.run()
    except SystemExit as failed:
        if server.started:
            raise
        # The reason has been logged; a bare exit would look like one of our own exit codes.
        raise ConfigError(f"cannot listen on {host}, port {port}; choose another with --host or --port") from failed


def _drop_unresponsive_peers(listening: Sequence[Any]) -> None:
    """Have the system close connections whose peers read nothing, to free their places.

    A socket is closed only after the peer has taken what was sent: one that reads nothing would keep it open for ever.
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux only; accepted sockets inherit it from the listening one
    for one in listening if option is not None else ():
        if one.family in (socket.AF_INET, socket.AF_INET6):
            one.setsockopt(socket.IPPROTO_TCP, option, _UNRESPONSIVE_MS)


def _extend_backlog(listening: Sequence[Any]) -> None:
    """Use a longer backlog than the number of connections accepted at a time; asyncio has one number for both."""
    for one in listening:
        with socket.socket(fileno=os.dup(one.fileno())) as same:
            same.listen(_BACKLOG)


async def _run_maintenance(app: App) -> None:
    try:
        async with app.maintenance_worker(grace=_GRACE):
            await asyncio.Event().wait()
    except HoldfastError as error:
        logger.error("maintenance is not running on this site: %s", error)


class _Server(uvicorn.Server):
    """A server that reports its address once it listens: the system may have chosen the port."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None], beside: Sequence[_Work] = ()) -> None:
        super().__init__(config)
        self._ready = ready
        self._beside = beside
        self._tasks: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.config.is_ssl:
            # uvicorn passes no timeout on, and asyncio's default is a minute.
            loop: Any = asyncio.get_running_loop()
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=HEAD_SECONDS)
        await super().startup(sockets)
        for server in self.servers:
            _drop_unresponsive_peers(server.sockets)
            _extend_backlog(server.sockets)
        # Not awaited: a site whose store is unavailable responds with an error instead of blocking its callers.
        self._tasks = [asyncio.create_task(work()) for work in self._beside]
        for server in self.servers:
            host, port = server.sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            self._ready(f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._tasks:
            task.cancel()
        await super().shutdown(sockets)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # A stop request is a normal exit: uvicorn would raise the signal again, which would end the process.
        self._captured_signals.clear()
