"""Stored text that is no UTF-8, such as a disk makes that loses a bit: it must not stop what stands beside it.

The driver refuses to read a whole answer for the sake of one such text. The operation is then run again with each bad
byte read as the character SUBSTITUTE, which no JSON may hold: what is garbled is undecodable, and nothing else is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SUBSTITUTE: Final = "\x1a"


def is_garbled(error: BaseException) -> bool:
    """Whether an answer could not be read because of a text in it."""
    return isinstance(error, sqlite3.OperationalError) and "Could not decode to UTF-8" in str(error)


@contextmanager
def as_it_is(connection: sqlite3.Connection) -> Iterator[None]:
    """Meanwhile every text is read, whatever its bytes are."""
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
