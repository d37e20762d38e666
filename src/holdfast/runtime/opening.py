"""Opens a store from a path or URL. The only module that names both backends."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..clock import Clock
from ..config import Config
from ..errors import ConfigError
from ..storage.disk import free_space
from ..storage.migrate import Dialect
from ..storage.port import Store
from ..telemetry import in_child

_POSTGRES: Final = ("postgres", "postgresql")
POSTGRES_ONLY: Final = ("schema", "pool_size", "listen_dsn")
_HOST: Final = re.compile(r"[\w.-]+:\d+(?=/)")
_IN_URL: Final = re.compile(r"(?<=://)([^:@]*):.*@", re.DOTALL)
# `user:password@`, after a scheme that was mistyped or left out; a path of Windows has a letter there.
_WITHOUT_SCHEME: Final = re.compile(r"((?:postgres\w*:?/{0,2}|/{2})?(?![A-Za-z]:[\\/])[^:@/]+):(?!//).*@", re.DOTALL)
_KEYWORDS: Final = re.compile(r"(^|\s)(host|hostaddr|dbname|service)=")


def open_store(config: Config, clock: Clock | None = None, *, auto_migrate: bool = True) -> Store:
    """Open a path, "sqlite:///…", ":memory:" or "postgresql://…". Nothing is read before the first use.

    A SQLite file is migrated when it is opened, unless `auto_migrate` is off; Postgres never is.
    """
    where = os.fspath(config.store)
    scheme = _scheme(where)
    if scheme in _POSTGRES:
        from ..storage.postgres import PostgresStore

        return PostgresStore(
            where,
            clock=clock,
            notify=config.notify,
            pool_size=config.pool_size,
            limit=config.store_timeout,
            prepare=config.prepare,
            schema=config.schema,
            listen_dsn=config.listen_dsn,
        )
    if database_file(config) is None and in_child():
        raise ConfigError("a child process cannot reach a database in memory; give the app a file")
    from ..storage.sqlite import SqliteStore

    return SqliteStore(where, clock=clock, durable=config.durable, auto_migrate=auto_migrate)


def refuse_postgres_settings(store: str | None, settings: Mapping[str, object]) -> None:
    """Refuse Postgres settings given in code together with a SQLite store, which would ignore them."""
    if store is None or _scheme(store) in _POSTGRES:
        return
    for name in POSTGRES_ONLY:
        if settings.get(name) is not None:
            raise ConfigError(f"{name} is for Postgres, and the store is SQLite ({store}); leave it out")


def database_file(config: Config) -> Path | None:
    """Return the file of a SQLite store; None for one in memory and for Postgres."""
    if _scheme(config.store) in _POSTGRES:
        return None
    from ..storage.sqlite.location import locate

    path = locate(config.store).path
    return Path(path) if path else None


def free_disk(config: Config) -> int | None:
    """Return the free bytes on the disk of the store's file; None if there is no file, or it is unknown."""
    file = database_file(config)
    return None if file is None else free_space(file.parent)


def foreign_tables(file: Path) -> int:
    """Return the number of tables in a SQLite file that has none of Holdfast's; 0 for any other file."""
    from ..storage.sqlite import schema

    return schema.foreign_tables(str(file))


def dialect_of(config: Config) -> Dialect:
    """Return the database that the settings name, without opening it."""
    return "postgres" if _scheme(config.store) in _POSTGRES else "sqlite"


def create_if_missing(config: Config) -> bool:
    """Create a Postgres database, or check whether opening will create a file; True if it was missing."""
    if dialect_of(config) == "postgres":
        from ..storage.postgres.migrations import create_database

        return create_database(config.store)
    file = database_file(config)
    return file is not None and not file.exists()


def filesystem_of(file: Path) -> str:
    """Return the type of the file system that holds a file; "" if unknown."""
    from ..storage.sqlite import location

    try:
        return location.filesystem_of(str(file), Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape"))
    except OSError:
        return ""


def redacted(where: str) -> str:
    """Return a store's URL without its password, also where it is mistyped."""
    found = None if "://" in where else _WITHOUT_SCHEME.match(where)
    return without_passwords(f"{found[1]}:***@{where[found.end() :]}" if found else where)


def without_passwords(text: str) -> str:
    """Return a text without the passwords of the URLs in it. One may contain any character: the last @ ends it."""
    text = _IN_URL.sub(r"\1:***@", text)
    return re.sub(r"((?:^|[?&\s])(?:password|sslpassword)=)[^&\s]*", r"\1***", text)


def _scheme(where: str) -> str:
    scheme = where.split("://", 1)[0].lower() if "://" in where else ""
    if not scheme and _KEYWORDS.search(where):
        raise ConfigError("the store looks like Postgres keywords; write it as postgresql://user@host/dbname")
    if where.startswith(("postgres:/", "postgresql:/", "sqlite:/")) and not scheme:
        kind, _, rest = where.partition(":")
        right = f"{kind}:{'///' if kind == 'sqlite' else '//'}{rest.lstrip('/')}"
        raise ConfigError(
            f"the store's URL lacks a slash, as in a Path, which drops one; pass the store as text: {redacted(right)!r}"
        )
    # A Path raises for a name that is too long.
    is_file = where.startswith(("sqlite:", "file:")) or os.path.exists(where)
    if not scheme and not is_file and _WITHOUT_SCHEME.match(where):
        raise ConfigError("the store has a password and no scheme; write postgresql:// before the user")
    if not scheme and (host := _HOST.match(where)):
        raise ConfigError(f"the store {host[0]!r}… looks like a Postgres server; write postgresql://{host[0]}/dbname")
    if scheme not in (*_POSTGRES, "", "sqlite", "file"):
        raise ConfigError(f"no store for {scheme}://; use a file's path, sqlite:///…, :memory: or postgresql://…")
    return scheme
