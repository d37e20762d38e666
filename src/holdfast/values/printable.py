"""Text for terminals and logs, without characters that control or reorder what is shown."""

from __future__ import annotations

import re
from typing import Final

# Control characters, marks that reorder text, separators that end a line, and halves of surrogate pairs.
_OTHERS: Final = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSEEN: Final = re.compile(f"[\x00-\x1f{_OTHERS}]")
_UNSEEN_IN_LINES: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_OTHERS}]")
_UNSEEN_IN_JSON: Final = re.compile(f"[{_OTHERS}]")
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """Return a text on one line: control characters as escapes, such as `\\x1b` and `\\n`."""
    return text if text.isprintable() and text.isascii() else _UNSEEN.sub(_escape, text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines: line ends and tabs are kept."""
    return _UNSEEN_IN_LINES.sub(_escape, text)


def printable_json(text: str) -> str:
    """The same for JSON, whose escapes it uses; the result is the same value."""
    return _UNSEEN_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _NAMED.get(character) or (f"\\x{ord(character):02x}" if character < "\x80" else f"\\u{ord(character):04x}")
