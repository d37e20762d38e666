"""Connections of this store: settings that need no session state, a bounded wait, no secrets in errors."""

from __future__ import annotations

import difflib
import math
import os
import re
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper

from ...errors import ConfigError, StorageError
from .failures import translate

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,40}")
_PREPARE_AFTER: Final = 5
_ENCODE: Final = (
    "percent-encode special characters of the user and the password: @ as %40, / as %2F, : as %3A, % as %25"
)
_DEFAULTS: Final[dict[str, str]] = {
    "fallback_application_name": "holdfast",
    "client_encoding": "utf8",
    # A peer that vanished silently is noticed in 10–30 s instead of hours.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "20000",
}


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that another thread can break off, as `Deadlines` does."""

    until: float = math.inf
    """The time of the monotonic clock at which it is broken off, while it is watched."""
    overdue: bool = False
    """Set once that time has passed: the connection must not be used for anything else."""

    def prepare_for_use(self) -> Self:
        # By default an int's type follows its size, and each mix of sizes would be prepared as a statement of its own.
        self.adapters.register_dumper(int, Int8Dumper)
        # This is how psycopg's own pool marks a connection that may end with the program without a ResourceWarning.
        setattr(self, "_pool", None)  # noqa: B010
        # A copy: libpq closes its own descriptor whenever it finds an error, and the number may then be another file's.
        self._line = os.dup(self.pgconn.socket)
        self._line_mutex = threading.Lock()
        return self

    def hang_up(self) -> None:
        """Shut the connection down. A thread that waits on it gets an error at once. From any thread."""
        with self._line_mutex:
            if self._line >= 0:
                with socket.socket(fileno=os.dup(self._line)) as line, suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        super().close()
        self._close_line()

    def __del__(self) -> None:  # type: ignore[override]
        super().__del__()
        self._close_line()

    def _close_line(self) -> None:
        if getattr(self, "_line", -1) < 0:
            return
        with self._line_mutex:
            if self._line >= 0:
                os.close(self._line)
                self._line = -1


@dataclass(frozen=True, slots=True)
class Address:
    """The database's address and connection settings."""

    conninfo: str
    prepare: bool
    place: str
    """For messages: host, port and database; never a user or a password."""

    def connect(self, within: float | None = None) -> Connection:
        """Open a connection, in `within` seconds where that is less than the address allows."""
        conninfo = self.conninfo if within is None else self._bounded(within)
        try:
            connection = Connection.connect(conninfo, autocommit=True, prepare_threshold=self._threshold)
        except psycopg.Error as error:
            raise self._unreachable(error) from error
        return connection.prepare_for_use()

    @property
    def _threshold(self) -> int | None:
        return _PREPARE_AFTER if self.prepare else None

    def _bounded(self, within: float) -> str:
        """Round to whole seconds, at least 2, as libpq requires, for each host. 0 in the address is no bound."""
        given = conninfo_to_dict(self.conninfo)
        allowed = int(given.get("connect_timeout") or 0)
        hosts = 1 + str(given.get("host") or given.get("hostaddr") or "").count(",")
        seconds = max(2, math.floor(within / hosts))
        return self.conninfo if 0 < allowed <= seconds else make_conninfo(self.conninfo, connect_timeout=seconds)

    def _unreachable(self, error: psycopg.Error) -> StorageError:
        found = translate(error)
        kind = type(found) if isinstance(found, StorageError) else StorageError
        return kind(f"cannot connect to Postgres at {self.place}: {found}", backend="postgres")


def address(dsn: str, *, connect_timeout: float, prepare: bool, schema: str | None = None) -> Address:
    """Check a DSN and complete it with defaults."""
    _check_encoded(dsn)
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
    except psycopg.Error as wrong:
        # The driver's message quotes the DSN, so it is neither shown nor chained.
        advice = _misspelt(str(wrong)) or f"write postgresql://user@host:5432/database, and {_ENCODE}"
        raise ConfigError(f"the Postgres DSN cannot be read; {advice}") from None
    settings = _DEFAULTS | {"connect_timeout": str(max(1, round(connect_timeout)))} | given
    if "," in given.get("host", "") or "," in given.get("hostaddr", ""):
        settings.setdefault("target_session_attrs", "read-write")
    if schema is not None:
        settings["options"] = f"{given.get('options', '')} -c search_path={_checked(schema)}".strip()
    return Address(make_conninfo("", **settings), prepare, _place(given))


def _check_encoded(dsn: str) -> None:
    """Refuse a URL whose password would be cut at an @ or a /, before a part of it is taken for a host and shown."""
    _, is_url, rest = dsn.partition("://")
    if not is_url:
        return
    authority, _, path = rest.partition("?")[0].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise ConfigError(f"the Postgres URL has an @ where none can be; {_ENCODE}")


def _misspelt(wrong: str) -> str:
    """Name a parameter only if it resembles one that exists: any other word may be part of a password."""
    named = re.search(r'(?:query parameter|connection option):? "(\w+)"', wrong)
    known = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
    close = difflib.get_close_matches(named[1], known, 1) if named else []
    return f"it has no parameter {named[1]!r}; did you mean {close[0]}?" if named and close else ""


def _checked(schema: str) -> str:
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError(f"schema {schema!r} must match {_SCHEMA.pattern}")
    return schema


def _place(given: dict[str, str]) -> str:
    host = given.get("host") or given.get("hostaddr") or "localhost"
    port = f":{given['port']}" if "port" in given else ""
    return f"{host}{port}/{given.get('dbname', '')}"
