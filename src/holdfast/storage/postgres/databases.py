"""Creates the database itself, where the role may do so."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...errors import ConfigError
from .connect import address
from .failures import translate

_DUPLICATE: Final = "42P04"


def create_database(dsn: str) -> bool:
    """Create the database that a DSN names, through the server's own `postgres`; False if it existed."""
    name = conninfo_to_dict(dsn).get("dbname")
    if not name:
        raise ConfigError("the Postgres DSN names no database; write postgresql://user@host:5432/database")
    connection = address(make_conninfo(dsn, dbname="postgres"), connect_timeout=5.0, prepare=False).connect()
    try:
        if connection.execute("select 1 from pg_database where datname = %s", (name,)).fetchone():
            return False
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(str(name))))
    except psycopg.Error as error:
        if error.sqlstate == _DUPLICATE:
            return False  # another process was faster
        raise translate(error) from error
    finally:
        connection.close()
    return True
