"""The Postgres store. Importing this package needs psycopg 3; nothing else in Holdfast does."""

from ...errors import ConfigError

try:
    import psycopg as _psycopg  # noqa: F401
except ImportError as missing:
    raise ConfigError(f'Postgres needs psycopg 3 ({missing}); run: pip install "holdfast[postgres]"') from missing

from .store import PostgresStore

__all__ = ["PostgresStore"]
