"""SQLite: one file on one host, any number of processes."""

from .borrowed import Connection
from .store import SqliteStore

__all__ = ["Connection", "SqliteStore"]
