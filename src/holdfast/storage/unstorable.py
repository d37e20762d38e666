"""What no database keeps: a NUL or half a surrogate pair in a text, a number beyond 64 bits. Each store says so alike.

Postgres and the drivers refuse most of it by themselves, in words of their own; SQLite would keep a NUL, and no store
on Postgres could ever take it over.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InvalidInput


def refuse_nul(values: Iterable[object]) -> None:
    """InvalidInput for a text that only SQLite would take."""
    for value in values:
        if type(value) is str and "\x00" in value:
            raise holding_nul()


def refuse_in_json(text: str) -> None:
    """The same for a text that is handed over inside a document, where the drivers do not see it."""
    refuse_nul([text])
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise refused(error) from None


def holding_nul() -> InvalidInput:
    return InvalidInput("a text contains U+0000, which no store keeps; remove it")


def refused(error: Exception) -> InvalidInput:
    """The same for what a driver could not hand over, or a server not take."""
    if isinstance(error, UnicodeEncodeError):
        return InvalidInput("a text holds a lone surrogate, which is no character; decode it with the right encoding")
    return InvalidInput("a number takes more than 64 bits; use a smaller one")
