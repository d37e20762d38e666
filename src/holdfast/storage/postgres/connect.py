"""How this store's connections are made: settings that need no session state, a bounded wait, no secrets in errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper

from ...errors import ConfigError, StorageError
from .failures import translate

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,40}")
_PREPARE_AFTER: Final = 5
_DEFAULTS: Final[dict[str, str]] = {
    "fallback_application_name": "holdfast",
    "client_encoding": "utf8",
    # A peer that vanished without a word is noticed in 10–30 s instead of hours.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "20000",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is, and how to talk to it."""

    conninfo: str
    prepare: bool
    place: str
    """For messages: host, port and database; never a user or a password."""

    def connect(self) -> Connection:
        try:
            connection = psycopg.connect(self.conninfo, autocommit=True, prepare_threshold=self._threshold)
        except psycopg.Error as error:
            raise self._unreachable(error) from error
        return _prepared(connection)

    @property
    def _threshold(self) -> int | None:
        return _PREPARE_AFTER if self.prepare else None

    def _unreachable(self, error: psycopg.Error) -> StorageError:
        found = translate(error)
        kind = type(found) if isinstance(found, StorageError) else StorageError
        return kind(f"cannot connect to Postgres at {self.place}: {found}", backend="postgres")


def address(dsn: str, *, connect_timeout: float, prepare: bool, schema: str | None = None) -> Address:
    """Check a DSN and complete it with what it leaves open."""
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
    except psycopg.Error:
        # The driver's message quotes the DSN, so it is neither shown nor chained.
        raise ConfigError("the Postgres DSN cannot be read; write postgresql://user@host:5432/database") from None
    settings = _DEFAULTS | {"connect_timeout": str(max(1, round(connect_timeout)))} | given
    if "," in given.get("host", "") or "," in given.get("hostaddr", ""):
        settings.setdefault("target_session_attrs", "read-write")
    if schema is not None:
        settings["options"] = f"{given.get('options', '')} -c search_path={_checked(schema)}".strip()
    return Address(make_conninfo("", **settings), prepare, _place(given))


def _checked(schema: str) -> str:
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError(f"schema {schema!r} must match {_SCHEMA.pattern}")
    return schema


def _place(given: dict[str, str]) -> str:
    host = given.get("host") or given.get("hostaddr") or "localhost"
    port = f":{given['port']}" if "port" in given else ""
    return f"{host}{port}/{given.get('dbname', '')}"


def _prepared(connection: Connection) -> Connection:
    # By default an int's type follows its size, and each mix of sizes would be prepared as a statement of its own.
    connection.adapters.register_dumper(int, Int8Dumper)
    # How psycopg's own pool says that a connection may end with the program without a ResourceWarning.
    setattr(connection, "_pool", None)  # noqa: B010
    return connection
