"""From a path or URL to a store. The only module that names the two."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from .clock import Clock
from .config import Config
from .errors import ConfigError
from .storage.port import Store

_POSTGRES: Final = ("postgres", "postgresql")


def open_store(config: Config, clock: Clock | None = None, *, auto_migrate: bool = True) -> Store:
    """A path, "sqlite:///…", ":memory:" or "postgresql://…". Nothing is read before the first use.

    A SQLite file is brought up to date when it is opened, unless `auto_migrate` is off; Postgres never is.
    """
    where = os.fspath(config.store)
    scheme = _scheme(where)
    if scheme in _POSTGRES:
        from .storage.postgres import PostgresStore

        return PostgresStore(where, clock=clock, notify=config.notify)
    if scheme not in ("", "sqlite", "file"):
        raise ConfigError(f"no store for {scheme}://; use a file's path, sqlite:///…, :memory: or postgresql://…")
    from .storage.sqlite import SqliteStore

    return SqliteStore(where, clock=clock, durable=config.durable, auto_migrate=auto_migrate)


def database_file(config: Config) -> Path | None:
    """The file of a SQLite store; None for one in memory and for Postgres."""
    if _scheme(config.store) in _POSTGRES:
        return None
    from .storage.sqlite.location import locate

    path = locate(config.store).path
    return Path(path) if path else None


def _scheme(where: str) -> str:
    return where.split("://", 1)[0].lower() if "://" in where else ""
