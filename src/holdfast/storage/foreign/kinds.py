"""Recognise a connection by the names of its classes, so that no library is imported to check."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Kind(Enum):
    SQLITE3 = "sqlite3.Connection"
    AIOSQLITE = "aiosqlite.Connection"
    PSYCOPG = "psycopg.Connection"
    PSYCOPG_ASYNC = "psycopg.AsyncConnection"
    ASYNCPG = "asyncpg.Connection"
    SESSION = "sqlalchemy Session"
    ENGINE_CONNECTION = "sqlalchemy Connection"
    ASYNC_SESSION = "sqlalchemy AsyncSession"
    ASYNC_ENGINE_CONNECTION = "sqlalchemy AsyncConnection"
    DJANGO = "django.db.connection"


AWAITING: Final = frozenset(
    {Kind.AIOSQLITE, Kind.PSYCOPG_ASYNC, Kind.ASYNCPG, Kind.ASYNC_SESSION, Kind.ASYNC_ENGINE_CONNECTION}
)

_BY_CLASS: Final = {
    "sqlite3.Connection": Kind.SQLITE3,
    "aiosqlite.core.Connection": Kind.AIOSQLITE,
    "psycopg.Connection": Kind.PSYCOPG,
    "psycopg.AsyncConnection": Kind.PSYCOPG_ASYNC,
    "asyncpg.connection.Connection": Kind.ASYNCPG,
    "asyncpg.pool.PoolConnectionProxy": Kind.ASYNCPG,
    "sqlalchemy.orm.session.Session": Kind.SESSION,
    "sqlalchemy.orm.scoping.scoped_session": Kind.SESSION,
    "sqlalchemy.engine.base.Connection": Kind.ENGINE_CONNECTION,
    "sqlalchemy.ext.asyncio.session.AsyncSession": Kind.ASYNC_SESSION,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": Kind.ASYNC_SESSION,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": Kind.ASYNC_ENGINE_CONNECTION,
    "django.utils.connection.ConnectionProxy": Kind.DJANGO,
    "django.db.backends.base.base.BaseDatabaseWrapper": Kind.DJANGO,
}


def kind_of(connection: object) -> Kind:
    """Return the kind of a borrowed connection. TypeError for anything unknown."""
    if (kind := find_kind(connection)) is not None:
        return kind
    known = ", ".join(kind.value for kind in Kind)
    raise TypeError(f"connection= is a {full_name(connection)}; pass one of: {known}")


def find_kind(thing: object) -> Kind | None:
    """Return the kind of a connection; None for anything else."""
    # By type, not by isinstance: a proxy pretends to be what it wraps.
    for ancestor in type(thing).__mro__:
        if kind := _BY_CLASS.get(f"{ancestor.__module__}.{ancestor.__qualname__}"):
            return kind
    return None


def full_name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
