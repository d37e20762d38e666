"""Flask: `init_app(web, app)` runs every job in an application context, and adds the commands `flask holdfast …`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import click

from ..app import App
from ..cli.locate import Host
from ..cli.main import commands_for
from ..errors import ConfigError, MissingExtra
from ..tasks.context import SyncContext
from .background import check_app

try:
    from flask import Flask, current_app
    from flask.cli import ScriptInfo
except ModuleNotFoundError as missing:
    if not MissingExtra.explains(missing, "flask"):
        raise
    raise MissingExtra("holdfast.contrib.flask", missing, "flask") from missing

__all__ = ["current_holdfast", "init_app"]

_KEY: Final = "holdfast"


def init_app(web: Flask, app: App) -> None:
    """Connect a Flask application and an app of Holdfast.

    Each job of the app runs in an application context of `web`, which is torn down when its run ends. If it is called
    again for the same app, as by an application factory in tests, the last Flask application counts.
    """
    if not isinstance(web, Flask):
        raise ConfigError(f"init_app takes the Flask application first, not {web!r}; write: init_app(web, app)")
    web.extensions[_KEY] = check_app(app)
    web.cli.add_command(commands_for(lambda ctx: Host(app, _program(ctx))))
    for layer in app._middleware:
        if isinstance(layer, _ApplicationContexts):
            layer.web = web
            return
    app.middleware(_ApplicationContexts(web))


def current_holdfast() -> App:
    """Return the app of the current Flask application."""
    if (app := current_app.extensions.get(_KEY)) is None:
        raise ConfigError("this Flask application has no Holdfast app; call holdfast.contrib.flask.init_app(web, app)")
    return check_app(app)


class _ApplicationContexts:
    """A middleware; a `def`, so that it shares its thread with the `def` tasks that Flask programs have."""

    def __init__(self, web: Flask) -> None:
        self.web = web

    def __call__(self, ctx: SyncContext, call: Callable[[], Any]) -> Any:
        with self.web.app_context():
            return call()


def _program(ctx: click.Context) -> tuple[str, ...]:
    info = ctx.find_object(ScriptInfo)
    path = info.app_import_path if info else None
    return (sys.executable, "-m", "flask", *(("--app", path) if path else ()), "holdfast")
