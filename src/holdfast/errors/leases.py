"""Invalid handles of leased jobs."""

from __future__ import annotations

from .root import InvalidInput


class BadHandle(InvalidInput):
    """Not a handle that this store gave out; nothing was changed. `why`: corrupt, version or foreign."""

    code = "bad_handle"

    def __init__(self, why: str, message: str) -> None:
        self.why = why
        super().__init__(message)
