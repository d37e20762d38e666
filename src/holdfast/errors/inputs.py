"""Values refused before anything was written."""

from __future__ import annotations

from .root import InvalidInput


class InvalidArguments(InvalidInput):
    """The arguments do not fit the task's signature, or cannot be encoded."""

    code = "invalid_arguments"


class Undecodable(InvalidInput):
    """Stored text that is not JSON, or that does not fit the type it is read as."""

    code = "undecodable"
    unknown: tuple[str, ...] = ()
    """Arguments of the stored job that this code's task lacks; newer code may have them."""


class UnknownTask(InvalidInput):
    """No task of that name is registered or declared in this app."""

    code = "unknown_task"


class ReservedName(InvalidInput):
    """The name of a queue, task or breaker that is reserved for Holdfast itself."""

    code = "reserved_name"

    def __init__(self, kind: str, name: str, remedy: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(f"{kind} {name!r} is reserved for Holdfast itself; {remedy}")


class PayloadTooLarge(InvalidInput):
    """An encoded value is over its size limit."""

    code = "too_large"

    def __init__(
        self, what: str, size: int, limit: int, remedy: str = "store the data elsewhere and pass a reference to it"
    ) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"{what} takes {size:,} bytes, the limit is {limit:,}; {remedy}")
