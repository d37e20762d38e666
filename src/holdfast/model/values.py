"""Values that are too large for their row: the column holds a reference, and the bytes are in a blob.

A reference is JSON that begins with a space, which the codec never writes: no user's value can be mistaken for one.
Code that does not know of references still reads valid JSON.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from ..ids import ids

INLINE: Final = 256 * 1024
"""A value of more bytes than this is kept in a blob."""
SURELY_INLINE: Final = INLINE // 4
"""A text of this many characters is always small: no character takes more than four bytes."""
_MARK: Final = " "


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
