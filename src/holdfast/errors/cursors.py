"""Places in a log or a stream where reading cannot go on."""

from __future__ import annotations

from .root import Conflict, InvalidInput


class InvalidCursor(InvalidInput):
    """Not a cursor that this log or stream gave out."""

    code = "invalid_cursor"


class CursorExpired(Conflict):
    """What follows the cursor has been removed; `oldest` is where reading can go on."""

    code = "cursor_expired"

    def __init__(self, message: str, oldest: str) -> None:
        self.oldest = oldest
        super().__init__(message)
