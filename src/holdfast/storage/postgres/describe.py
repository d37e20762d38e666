"""Versions, settings and sizes for `doctor`, and nothing secret."""

from __future__ import annotations

from typing import Final

import psycopg

from ..port import Value
from .connect import Address, Connection
from .failures import translate

_NAMES: Final = (
    "server_version", "database", "schema", "in_recovery", "synchronous_commit", "fsync", "max_connections",
    "connections", "database_bytes", "oldest_transaction_seconds", "notify_queue_usage", "clock_skew_seconds",
)  # fmt: skip
_FACTS: Final = """
select current_setting('server_version'), current_database(), current_schema(), pg_is_in_recovery()::int,
       current_setting('synchronous_commit'), current_setting('fsync'), current_setting('max_connections')::int,
       (select count(*) from pg_stat_activity where datname = current_database()),
       pg_database_size(current_database()),
       (select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::float8 from pg_stat_activity),
       pg_notification_queue_usage(),
       extract(epoch from clock_timestamp())::float8 - %s::float8
"""


def describe(connection: Connection, address: Address, now: float) -> dict[str, Value]:
    """Describe the server. `now` is this machine's clock, to compare the server's with."""
    try:
        row = connection.execute(_FACTS, (now,)).fetchone()
    except psycopg.Error as error:
        raise translate(error) from error
    return {
        "backend": "postgres",
        "place": address.place,
        "driver": f"psycopg {psycopg.__version__} ({psycopg.pq.__impl__})",
        "prepare": int(address.prepare),
        **dict(zip(_NAMES, row or (), strict=True)),
    }
