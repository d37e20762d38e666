"""Names and content types of artifacts, and the pieces of a range."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..errors import InvalidInput
from ..model.artifacts import COMPLETION, PART
from ..names import check_name

TYPE_BYTES: Final = 255

_WORD: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_QUOTED: Final = r'"[\x20\x21\x23-\x5b\x5d-\x7e]*"'
# RFC 9110: type/subtype, then parameters whose values are words or quoted.
_CONTENT_TYPE: Final = re.compile(rf"{_WORD}/{_WORD}(?:[ \t]*;[ \t]*{_WORD}=(?:{_WORD}|{_QUOTED}))*")


def check_artifact_name(value: object) -> str:
    """Check the name of a new artifact: it may become a file's name, so it contains no path."""
    name = check_name("the artifact's name", value)
    if "/" in name or "\\" in name:
        raise InvalidInput(f"the artifact's name {name!r} contains a separator of paths; use - or _ instead")
    if name.strip() in ("", ".", ".."):
        raise InvalidInput(f"the artifact's name {name!r} is not one that a file could have; choose another")
    if name == COMPLETION:
        raise InvalidInput(f"{COMPLETION!r} is the name of every job's result; choose another, or return the value")
    return name


def check_content_type(value: object) -> str:
    """Check a media type, such as text/plain; charset=utf-8."""
    if not isinstance(value, str) or len(value) > TYPE_BYTES or not _CONTENT_TYPE.fullmatch(value):
        raise InvalidInput(f"the content type {value!r:.100} is not of the form type/subtype, such as text/plain")
    return value


def check_range(start: object, length: object) -> tuple[int, int | None]:
    """Check the first byte of a range and its length; None is up to the end."""
    return _count("start", start), None if length is None else _count("length", length)


def pieces(size: int, start: int, length: int | None) -> Iterator[tuple[int, int]]:
    """Yield the start and length of each piece of a range, up to the end. No piece crosses a part's boundary."""
    end = size if length is None else min(size, start + length)
    while start < end:
        stop = min(end, (start // PART + 1) * PART)
        yield start, stop - start
        start = stop


def _count(what: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput(f"{what} is {value!r}; give a whole number of bytes from 0")
    return value
