"""The root of all errors, and its families."""

from __future__ import annotations

from typing import ClassVar


class HoldfastError(Exception):
    """The root of all errors raised by Holdfast."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False


class ConfigError(HoldfastError):
    """A setting is wrong; nothing has run."""

    code = "config"


class InvalidInput(HoldfastError):
    """A value was refused before anything was written."""

    code = "invalid"


class NotFound(HoldfastError):
    """Nothing of that kind has that id."""

    code = "not_found"

    def __init__(self, kind: str, id: str) -> None:
        self.kind = kind
        self.id = id
        super().__init__(f"no {kind} {id!r}")


class Conflict(HoldfastError):
    """What the store holds forbids this change."""

    code = "conflict"


class QueueFull(HoldfastError):
    """Too many writes are waiting in this process; slow down or retry."""

    code = "queue_full"
    retryable = True
