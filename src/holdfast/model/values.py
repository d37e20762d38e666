"""Stored values as programs receive them (datetimes, seconds, decoded JSON), and those too large for their row.

Of a large value the column holds a reference, and the bytes are in a blob. A reference is JSON that begins with a
space, which the codec never writes: no user's value can be mistaken for one. Code that does not know of references
still reads valid JSON.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, overload

import msgspec

from ..clock import SECOND
from ..ids import ids
from ..names import MAX_INSTANT, MIN_INSTANT

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""An aware datetime; RFC 3339 in JSON."""
Withheld = Annotated[Any, msgspec.Meta(description="Any JSON; null where the caller may not see payloads.")]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

INLINE: Final = 256 * 1024
"""A value of more bytes than this is kept in a blob."""
SURELY_INLINE: Final = INLINE // 4
"""A text of this many characters is always small: no character takes more than four bytes."""
_MARK: Final = " "


@overload
def instant_of(micros: int) -> datetime: ...
@overload
def instant_of(micros: None) -> None: ...
def instant_of(micros: int | None) -> datetime | None:
    """Return a stored instant as a datetime in UTC."""
    if micros is None:
        return None
    # A long delay may lead beyond what a datetime can hold.
    return _EPOCH + timedelta(microseconds=max(MIN_INSTANT, min(micros, MAX_INSTANT)))


@overload
def micros_of(at: datetime) -> int: ...
@overload
def micros_of(at: None) -> None: ...
def micros_of(at: datetime | None) -> int | None:
    """Return a datetime as it is stored: microseconds since 1970."""
    return None if at is None else (at - _EPOCH) // _MICROSECOND


@overload
def seconds_of(micros: int) -> float: ...
@overload
def seconds_of(micros: None) -> None: ...
def seconds_of(micros: int | None) -> float | None:
    """Return a stored duration in seconds."""
    return None if micros is None else micros / SECOND


def decoded(text: str | None) -> Any:
    """Return stored JSON as a value. Text that is not JSON stays text, so that a corrupt row can still be shown.

    For a large value in a blob, return a text with its size.
    """
    if text is None:
        return None
    if is_reference(text):
        return in_brief(text)
    try:
        return json.loads(text)
    except ValueError:
        return str(text)


class Reference(msgspec.Struct, frozen=True):
    """The text in the column of a large value. `size` is in bytes of UTF-8, `sha256` in hexadecimal."""

    blob: str
    size: int
    sha256: str

    @property
    def column(self) -> str:
        """Return the reference as it is stored."""
        return _MARK + _encode(_Column(self)).decode()


class _Column(msgspec.Struct, frozen=True):
    holdfast_value: Reference


def is_large(text: str | None) -> bool:
    """Return whether a value is too large for its row. For a small one this is one comparison of a length."""
    return text is not None and len(text) > SURELY_INLINE and len(text.encode()) > INLINE


def is_reference(text: str | None) -> bool:
    """Return whether a column holds a reference instead of the value. A damaged one does not count."""
    return text is not None and text[:1] == _MARK and _is_readable(text)


def _is_readable(column: str) -> bool:
    try:
        _decode(column)
    except (msgspec.MsgspecError, UnicodeError):
        return False
    return True


def refer(text: str) -> Reference:
    """Make a reference to a large value."""
    data = text.encode()
    return Reference(ids.new(), len(data), hashlib.sha256(data).hexdigest())


def reference_of(column: str) -> Reference:
    """Return the reference that a column holds."""
    return _decode(column).holdfast_value


def in_brief(column: str) -> str:
    """Return the text that people are shown instead of a large value."""
    size = reference_of(column).size
    return f"({size / 1e6:,.1f} MB, too large to show here)"


def is_same(stored: str, given: str) -> bool:
    """Return whether a column holds this value, whole or by reference."""
    if is_reference(stored) and not is_reference(given):
        return reference_of(stored).sha256 == hashlib.sha256(given.encode()).hexdigest()
    return stored == given


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Column).decode
