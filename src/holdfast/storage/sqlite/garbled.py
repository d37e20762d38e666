"""Stored text that is not valid UTF-8, as after a disk error: it must not block the rows beside it.

Because of one such text the driver refuses to read a whole result. The operation is then run again with each bad
byte read as the character SUBSTITUTE, which no JSON may hold: garbled values are undecodable, and no others are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SUBSTITUTE: Final = "\x1a"


def is_garbled(error: BaseException) -> bool:
    """Return whether a result could not be read because of a text in it."""
    return isinstance(error, sqlite3.OperationalError) and "Could not decode to UTF-8" in str(error)


@contextmanager
def as_it_is(connection: sqlite3.Connection) -> Iterator[None]:
    """Read every text, whatever its bytes are."""
    connection.text_factory = _read
    try:
        yield
    finally:
        connection.text_factory = str


def _read(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").replace("\ufffd", _SUBSTITUTE)
