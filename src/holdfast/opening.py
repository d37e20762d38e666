"""From a path or URL to a store. The only module that names the two."""

from __future__ import annotations

import os

from .clock import Clock
from .config import Config
from .errors import ConfigError
from .storage.port import Store


def open_store(config: Config, clock: Clock | None = None) -> Store:
    """A path, "sqlite:///…", ":memory:" or "postgresql://…". Nothing is read before the first use."""
    where = os.fspath(config.store)
    scheme = where.split("://", 1)[0].lower() if "://" in where else ""
    if scheme in ("postgres", "postgresql"):
        from .storage.postgres import PostgresStore

        return PostgresStore(where, clock=clock, notify=config.notify)
    if scheme not in ("", "sqlite", "file"):
        raise ConfigError(f"no store for {scheme}://; use a file's path, sqlite:///…, :memory: or postgresql://…")
    from .storage.sqlite import SqliteStore

    return SqliteStore(where, clock=clock, durable=config.durable)
