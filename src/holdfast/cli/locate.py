"""Finds the app or the store of a command."""

from __future__ import annotations

import importlib
import os
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from ..app import App
from ..config import load, origins
from ..errors import ConfigError
from ..importing import importing
from ..names import counted
from ..runtime.database import Database
from ..runtime.opening import database_file, foreign_tables
from .command import echo

STORE_VARIABLE: Final = "HOLDFAST_STORE"
HOST: Final = "holdfast.host"
"""The key of the `Host` in a command's context."""


def find_app(
    app_name: str | None,
    store: str | None,
    *,
    create: bool = True,
    adds: bool = False,
    needs_tasks: bool = False,
    say: Callable[[str], object] | None = None,
) -> App:
    """Return the app by name, the project's own, or one without tasks on the given store.

    A store that is given alone imports no code, unless the command `needs_tasks`.
    Creates a SQLite file that does not exist, unless `create` is off, and says so: the path may be mistyped. If the
    file has other tables and none of Holdfast's, only commands with `adds` create them; all others reject the file.
    """
    if (host := current_host()) is not None:
        app = _app_of_host(host, app_name, store)
    else:
        app = _named_app(app_name, store, needs_tasks=needs_tasks)
    if context := click.get_current_context(silent=True):
        context.call_on_close(app.close)
    return _with_tables(app, create=create, adds=adds, say=say or _say)


def _named_app(app_name: str | None, store: str | None, *, needs_tasks: bool) -> App:
    use_store(store)
    project = find_project() if not app_name and (store is None or needs_tasks) else None
    if project is not None:
        return _load_project(project)
    return load_app(app_name) if app_name else App(_store_without_app())


def _with_tables(app: App, *, create: bool, adds: bool, say: Callable[[str], object]) -> App:
    file = database_file(app.config)
    if not create or file is None:
        return app
    others = foreign_tables(file) if file.exists() else 0
    if others and not adds:
        raise ConfigError(
            f"{file} has {counted(others, 'table')}, none of them Holdfast's;"
            f" if this is the right file, create them with: holdfast db migrate --store {file}"
        )
    if others or not file.exists():
        with Database(app.config) as database:
            database.create()
        added = f"added Holdfast's tables to {file}, which had {counted(others, 'table')} before"
        say(added if others else f"created a new SQLite database: {file}")
    return app


def is_named(app_name: str | None, store: str | None) -> bool:
    """Return whether `find_app` finds an app of the user's, with tasks."""
    return current_host() is not None or bool(app_name) or (store is None and find_project() is not None)


@dataclass(frozen=True, slots=True)
class Host:
    """A program that has these commands among its own, as `flask holdfast …`, and its app."""

    app: App
    program: tuple[str, ...]
    """The command line in front of these commands, for child processes."""


def current_host() -> Host | None:
    """Return the program in which the current command runs; None in `holdfast` itself."""
    context = click.get_current_context(silent=True)
    return context.meta.get(HOST) if context else None


def _app_of_host(host: Host, app_name: str | None, store: str | None) -> App:
    context = click.get_current_context()
    name = " ".join(host.program[2:])
    if store is not None:
        raise ConfigError(f"{name} uses the store of its app; leave out --store, or set HOLDFAST_STORE")
    if app_name and context.get_parameter_source("app_name") is not ParameterSource.ENVIRONMENT:
        raise ConfigError(f"{name} has an app of its own; leave out {app_name}, or use the program holdfast")
    return host.app


def _load_project(project: Project) -> App:
    try:
        return load_app(project.app, folder=project.file.parent)
    except ConfigError as wrong:
        raise ConfigError(f"{wrong}; {project.app!r} is the app in {project.file}") from wrong


def load_app(name: str, folder: Path | None = None) -> App:
    """Return the app that `module:attribute` names; the attribute may be dotted, and is `app` by default.

    The module is searched in `folder` first, by default the current one.
    """
    module_name, _, attribute = name.partition(":")
    found = _import(module_name, name, str(folder or Path.cwd()))
    for part in (attribute or "app").split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigError(
                f"module {module_name!r} has no {attribute or 'app'!r}; {_apps_of(module_name)}"
            ) from None
    if not isinstance(found, App):
        raise ConfigError(f"{name!r} is of type {type(found).__name__}, not a holdfast.App; name the app itself")
    return found


def use_store(store: str | None) -> None:
    """Let a store from the command line override every other setting, also in child processes."""
    # A variable, not an argument: any user of the machine could read a password in an argument.
    if store is not None:
        os.environ[STORE_VARIABLE] = store


def _say(text: str) -> None:
    echo(text, err=True)


def _store_without_app() -> str:
    store = load({}).store
    if origins({})["store"] == "default" and not os.path.exists(store):
        raise ConfigError(
            "which store? Give --store URL or --app MODULE:APP, set HOLDFAST_STORE or HOLDFAST_APP, or put"
            ' [tool.holdfast] app = "MODULE:APP" in pyproject.toml'
        )
    return store


def _import(module_name: str, name: str, here: str) -> object:
    if not module_name or module_name.endswith(".py") or "/" in module_name:
        raise ConfigError(f"{name!r} is not MODULE:APP; write it as in an import, such as shop.jobs:app")
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with importing(module_name):
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise ConfigError(f"there is no module {error.name!r} in {here} or among installed packages") from error
        raise ConfigError(f"importing {module_name!r} failed: it needs a module {error.name!r}") from error
    except Exception as error:
        raise ConfigError(f"importing {module_name!r} failed: {type(error).__name__}: {error}") from error


def _apps_of(module_name: str) -> str:
    apps = sorted(name for name, value in vars(sys.modules[module_name]).items() if isinstance(value, App))
    return f"it has {', '.join(f'{module_name}:{name}' for name in apps)}" if apps else "it contains no app"


@dataclass(frozen=True, slots=True)
class Project:
    """The app that a project names, and the file that says so."""

    app: str
    file: Path


def find_project() -> Project | None:
    """Return the project of the nearest pyproject.toml with a `[tool.holdfast]`, from the current folder upwards."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if (settings := _settings(file)) is not None:
            return Project(_app(settings, file), file)
    return None


def _settings(file: Path) -> dict[str, Any] | None:
    try:
        text = file.read_bytes() if file.is_file() else b""
        # A file that does not mention Holdfast may belong to another tool, in a newer TOML.
        found = tomllib.loads(text.decode()) if b"holdfast" in text else {}
    except (OSError, ValueError) as wrong:
        raise ConfigError(f"{file} cannot be read: {wrong}; fix it, or name the app with --app") from wrong
    tool = found.get("tool", {})
    settings = tool.get("holdfast") if isinstance(tool, dict) else None
    if settings is not None and not isinstance(settings, dict):
        raise ConfigError(f'{file}: tool.holdfast is not a table; write [tool.holdfast] and app = "MODULE:APP" below')
    return settings


def _app(settings: dict[str, Any], file: Path) -> str:
    if unknown := settings.keys() - {"app"}:
        raise ConfigError(f"{file}: [tool.holdfast] has no setting {min(unknown)!r}; it has app")
    app = settings.get("app")
    if not isinstance(app, str) or not app:
        raise ConfigError(f'{file}: [tool.holdfast] needs app = "MODULE:APP", such as "shop.jobs:app"')
    return app
