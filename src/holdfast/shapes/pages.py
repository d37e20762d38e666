"""Lists, and where they go on. A cursor is opaque: it is given out, and taken back as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from ..errors import InvalidCursor
from ..rules import base64url

T = TypeVar("T")
R = TypeVar("R")


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A part of a list. `next` is the cursor of the part behind it; null where this is the last."""

    items: list[T]
    next: str | None = None


def whole(found: Sequence[R], shape: Callable[[R], T]) -> Page[T]:
    """A list that is never so long that it comes in parts."""
    return Page(items=[shape(one) for one in found])


def part(found: Sequence[R], limit: int, shape: Callable[[R], T], place: Callable[[R], tuple[str, ...]]) -> Page[T]:
    """A part of at most `limit`. A full one may have more behind it, from the place of its last."""
    more = cursor_at(place(found[-1])) if found and len(found) >= limit else None
    return Page(items=[shape(one) for one in found], next=more)


def cursor_at(place: tuple[str, ...]) -> str:
    """A place in a list as a cursor."""
    return base64url.encode(msgspec.json.encode(place))


def place_at(cursor: str, parts: int = 1) -> tuple[str, ...]:
    """The place that a cursor stands for; InvalidCursor where it is not one of those that were given out."""
    try:
        place = msgspec.json.decode(base64url.decode(cursor), type=tuple[str, ...])
        if len(place) == parts and cursor_at(place) == cursor and not any("\x00" in name for name in place):
            return place
    except (ValueError, msgspec.MsgspecError):
        pass
    raise InvalidCursor(f"the cursor {cursor[:64]!r} was not given out by this list; start without one")
