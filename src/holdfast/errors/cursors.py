"""Cursors at which reading cannot resume."""

from __future__ import annotations

from .root import Conflict, InvalidInput


class InvalidCursor(InvalidInput):
    """Not a cursor that this log or stream issued."""

    code = "invalid_cursor"


class CursorExpired(Conflict):
    """The entries after the cursor were removed; reading can resume at `oldest`."""

    code = "cursor_expired"

    def __init__(self, message: str, oldest: str) -> None:
        self.oldest = oldest
        super().__init__(message)
