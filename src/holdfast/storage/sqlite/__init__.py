"""SQLite: one file on one host, any number of processes."""

from .lent import Connection
from .store import SqliteStore

__all__ = ["Connection", "SqliteStore"]
