"""The Postgres store. Importing this package needs psycopg 3; nothing else in Holdfast does."""

from ...errors import MissingExtra

try:
    from .store import PostgresStore
except ImportError as missing:
    if (missing.name or "psycopg").partition(".")[0] != "psycopg":
        raise
    raise MissingExtra("a Postgres store", missing, "postgres") from missing

__all__ = ["PostgresStore"]
