"""Values that no database stores: a NUL or half a surrogate pair in a text, a number beyond 64 bits. One error for all.

Postgres and the drivers refuse most of it themselves, with their own messages; SQLite would store a NUL, and no
store on Postgres could ever take it over.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InvalidInput


def refuse_nul(values: Iterable[object]) -> None:
    """Raise InvalidInput for a text that only SQLite would store."""
    for value in values:
        if type(value) is str and "\x00" in value:
            raise holding_nul()


def refuse_in_json(text: str) -> None:
    """Raise InvalidInput for such a text inside a JSON document, where the drivers do not see it."""
    refuse_nul([text])
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise refused(error) from None


def holding_nul() -> InvalidInput:
    return InvalidInput("a text contains U+0000, which no store keeps; remove it")


def refused(error: Exception) -> InvalidInput:
    """Return InvalidInput for a value that a driver could not send, or a server not store."""
    if isinstance(error, UnicodeEncodeError):
        return InvalidInput(
            "a text holds a lone surrogate, which is not a character; decode it with the right encoding"
        )
    return InvalidInput("a number takes more than 64 bits; use a smaller one")
