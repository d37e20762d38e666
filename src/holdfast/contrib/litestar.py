"""Litestar: `HoldfastPlugin(app)` opens the app, runs a worker, injects the app and adds `litestar holdfast …`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click

from ..app import App
from ..cli.locate import Host
from ..cli.main import commands_for
from ..errors import MissingExtra
from .asgi import STATE, WorkerWanted, running
from .background import DurableBackgroundTasks, check_app

try:
    from litestar import asgi
    from litestar.config.app import AppConfig
    from litestar.di import Provide
    from litestar.handlers import ASGIRouteHandler
    from litestar.plugins import CLIPlugin, InitPlugin
    from litestar.types import Receive, Scope, Send
except ModuleNotFoundError as missing:
    if not MissingExtra.explains(missing, "litestar"):
        raise
    raise MissingExtra("holdfast.contrib.litestar", missing, "litestar") from missing

__all__ = ["DurableBackgroundTasks", "HoldfastPlugin", "dashboard"]


def dashboard(path: str, app: App, **settings: Any) -> ASGIRouteHandler:
    """Return a route handler with the dashboard, with the settings of `holdfast.web.asgi`: `dashboard("/admin", app)`.

    Litestar cuts the path of a mounted application without saying where it is mounted; this says it.
    """
    from ..web import asgi as site_of

    site: Any = site_of(check_app(app), **settings)
    mounted = "/" + path.strip("/")

    @asgi(path, is_mount=True, copy_scope=True)
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path", "") + mounted
        await site({**scope, "root_path": root, "path": root + scope["path"]}, receive, send)

    return serve


class HoldfastPlugin(InitPlugin, CLIPlugin):
    """`Litestar(plugins=[HoldfastPlugin(app, migrate=True, worker=True)])`, with the settings of `running`.

    Handlers get the app as the parameter `holdfast: App`, or by the name given as `dependency`. The worker starts
    after the lifespan functions of the application and stops before them, so that tasks find what those set up.
    """

    def __init__(
        self, app: App, *, migrate: bool = False, worker: WorkerWanted = False, dependency: str = STATE
    ) -> None:
        self._app = check_app(app)
        self._migrate = migrate
        self._worker = worker
        self._dependency = dependency

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Add the lifespan and the dependency."""
        app_config.lifespan.append(self._live)
        app_config.dependencies[self._dependency] = Provide(lambda: self._app, sync_to_thread=False)
        app_config.signature_types.append(App)
        app_config.state[STATE] = self._app
        return app_config

    def on_cli_init(self, cli: click.Group) -> None:
        """Add the commands."""
        cli.add_command(commands_for(self._host))

    @asynccontextmanager
    async def _live(self, _: Any) -> AsyncIterator[None]:
        async with running(self._app, migrate=self._migrate, worker=self._worker):
            yield

    def _host(self, ctx: click.Context) -> Host:
        path = getattr(ctx.find_root().obj, "app_path", None)
        return Host(self._app, (sys.executable, "-m", "litestar", *(("--app", path) if path else ()), "holdfast"))
