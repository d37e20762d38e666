"""Lists and the cursors with which they continue. A cursor is opaque to clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from ...errors import InvalidCursor
from ...rules import base64url

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A part of a list. `next` is the cursor of the next part; null if this is the last."""

    items: list[T]
    next: str | None = None


def whole(found: Iterable[T]) -> Page[T]:
    """Return a list that is never so long that it comes in parts."""
    return Page(items=list(found))


def part(found: Sequence[T], limit: int, place: Callable[[T], tuple[str, ...]]) -> Page[T]:
    """Return a part of at most `limit`. A full one may have more after it, from the place of its last."""
    more = cursor_at(place(found[-1])) if found and len(found) >= limit else None
    return Page(items=list(found), next=more)


def cursor_at(place: tuple[str, ...]) -> str:
    """Return a place in a list as a cursor."""
    return base64url.encode(msgspec.json.encode(place))


def place_at(cursor: str, parts: int = 1) -> tuple[str, ...]:
    """Return the place of a cursor; InvalidCursor if it is not one that was given out."""
    try:
        place = msgspec.json.decode(base64url.decode(cursor), type=tuple[str, ...])
        if len(place) == parts and cursor_at(place) == cursor and not any("\x00" in name for name in place):
            return place
    except (ValueError, msgspec.MsgspecError):
        pass
    raise InvalidCursor(f"the cursor {cursor[:64]!r} was not given out by this list; start without one")
