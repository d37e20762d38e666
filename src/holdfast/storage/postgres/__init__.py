"""The Postgres store. Importing this package needs psycopg 3; nothing else in Holdfast does."""

from ...errors import ConfigError

try:
    from .store import PostgresStore
except ImportError as missing:
    if (missing.name or "psycopg").partition(".")[0] != "psycopg":
        raise
    raise ConfigError(f'Postgres needs psycopg 3 ({missing}); run: pip install "holdfast[postgres]"') from missing

__all__ = ["PostgresStore"]
