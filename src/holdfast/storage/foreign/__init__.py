"""The caller's own connection: run an operation inside the transaction it has open.

The operation runs once, under a savepoint, and is neither retried nor merged; the caller commits. No library is
imported that the caller has not loaded.
"""

from .borrowed import sqlite_connection_of
from .kinds import kind_of
from .within import Host, arun_within, run_within

__all__ = ["Host", "arun_within", "kind_of", "run_within", "sqlite_connection_of"]
