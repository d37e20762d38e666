"""Downloads: byte ranges, and the headers that keep a browser from displaying the content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from .failures import Refused

_RANGE: Final = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII | re.IGNORECASE)
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9 ._()-]")


@dataclass(frozen=True, slots=True)
class Span:
    """A range of bytes."""

    start: int
    length: int


def download_headers(name: str, etag: str) -> dict[str, str]:
    """Return the headers of a download. Stored content may be a hostile page: it is saved, not displayed."""
    plain = _UNSAFE.sub("_", name)
    return {
        "content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}",
        "x-content-type-options": "nosniff",
        "accept-ranges": "bytes",
        "etag": etag,
    }


def is_known(headers: Mapping[str, str], etag: str) -> bool:
    """Return True if the caller already has it."""
    given = [one.strip().removeprefix("W/") for one in headers.get("if-none-match", "").split(",")]
    return etag in given or given == ["*"]


def span_of(headers: Mapping[str, str], size: int, etag: str) -> Span | None:
    """Return the requested range; None for the whole, as for several ranges or an invalid one.

    Raises a 416 error if it begins after the end.
    """
    match = _RANGE.fullmatch(headers.get("range", "").strip())
    if match is None or not any(match.groups()) or headers.get("if-range", etag) != etag:
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= size or start >= end:
        raise Refused(
            416, "range_not_satisfiable", f"the artifact has {size:,} bytes", {"content-range": f"bytes */{size}"}
        )
    return Span(start, end - start)
