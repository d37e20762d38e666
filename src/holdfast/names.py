"""Checks of names and values that callers give: each returns the value as it is stored, or says how to fix it.

Names are shown in terminals, logs and web pages, so characters that control or reorder text are refused; a queue's
name is also typed by hand, in lists and into channels, so nothing invisible may be in it.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from .clock import SECOND
from .errors import InvalidInput

NAME_BYTES: Final = 128
TAG_BYTES: Final = 64
# The name of a token, a schedule or a job, with the word for its kind.
CREATOR_BYTES: Final = 160
MAX_TAGS: Final = 32
MAX_CAPABILITIES: Final = 256
CAPABILITIES_BYTES: Final = 4096
MAX_ATTEMPTS: Final = 1000
UNLIMITED: Final = 0
MIN_PRIORITY: Final = -32768
MAX_PRIORITY: Final = 32767
# The years 1 to 9999, so that every stored instant can be read back as a datetime.
MIN_INSTANT: Final = -62_135_596_800 * SECOND
MAX_INSTANT: Final = 253_402_300_799 * SECOND

# Control characters, halves of surrogate pairs, and the separators that end a line or paragraph.
_CONTROL: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_REORDERING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Characters without a shape that Unicode files under letters, marks and symbols.
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MICROSECOND: Final = timedelta(microseconds=1)


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: "1 call", "2 calls"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def check_name(what: str, value: object, *, limit: int = NAME_BYTES) -> str:
    """Check a task, tenant, key, tag or id: 1 to `limit` bytes of visible text."""
    text = _text(what, value)
    size = len(text.encode("utf-8", "replace"))
    if not text:
        raise InvalidInput(f"{what} is empty; give it 1 to {limit} bytes")
    if size > limit:
        raise InvalidInput(f"{what} takes {size:,} bytes; shorten it to {limit}, or use a hash of it")
    if text.isascii() and text.isprintable():
        return text
    for character in text:
        if unicodedata.category(character) in _CONTROL or character in _REORDERING or _is_none(character):
            raise InvalidInput(f"{what} {text!a} contains {_describe(character)}; remove it")
    return text


def check_queue(value: object) -> str:
    """Check a queue's name, which also has no commas, white space or invisible characters."""
    return _word("the queue's name", value)


def check_id(value: object) -> str:
    """Check an id that a caller chose, under the rules for queues."""
    return _word("the id", value)


def check_affinity(value: object) -> str:
    """Check an affinity, under the rules for queues."""
    return _word("the affinity", value)


def check_capabilities(what: str, values: object) -> frozenset[str]:
    """Check capabilities: at most 256, which take at most 4,096 bytes joined with commas."""
    if isinstance(values, str) or not isinstance(values, (list, tuple, set, frozenset)):
        raise InvalidInput(f"{what} must be a list of texts, not {_kind(values)}; write {what}=[…]")
    found = frozenset(_word("a capability", value) for value in values)
    if len(found) > MAX_CAPABILITIES:
        raise InvalidInput(f"{what} has {len(found)} capabilities; use at most {MAX_CAPABILITIES}")
    size = len(",".join(found).encode())
    if size > CAPABILITIES_BYTES:
        raise InvalidInput(f"{what} takes {size:,} bytes; shorten it to {CAPABILITIES_BYTES:,}")
    return found


def check_tags(values: object) -> tuple[str, ...]:
    """Check tags: at most 32 of at most 64 bytes, each once, in the order given; a mapping gives "key=value"."""
    if isinstance(values, Mapping):
        values = [_pair(key, value) for key, value in values.items()]
    if isinstance(values, str):
        raise InvalidInput(f"tags must be a list of texts or a mapping, not one text; write tags=[{values!r}]")
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise InvalidInput(f"tags must be a list of texts or a mapping, not {_kind(values)}; write tags=[…]")
    tags = tuple(dict.fromkeys(check_name("a tag", value, limit=TAG_BYTES) for value in values))
    if len(tags) > MAX_TAGS:
        raise InvalidInput(f"{len(tags)} tags are too many; use at most {MAX_TAGS}")
    return tags


def _pair(key: object, value: object) -> str:
    name = check_name("a tag's key", key, limit=TAG_BYTES)
    if "=" in name:
        raise InvalidInput(f"a tag's key {name!r} contains =, which ends the key; use another character")
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidInput(f"the value of tag {name!r} must be text or a whole number, not {_kind(value)}")
    return f"{name}={value}"


def check_duration(what: str, value: object, *, above_zero: bool = False) -> int:
    """Return seconds or a timedelta, finite and not negative, as microseconds."""
    if isinstance(value, timedelta):
        micros = value // _MICROSECOND
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput(f"{what} is {value}; give a finite number of seconds")
        # A larger float times a million may be infinite, and cannot be converted to a whole number.
        micros = value * SECOND if isinstance(value, int) else round(max(-1.0, min(value, MAX_INSTANT)) * SECOND)
    else:
        raise InvalidInput(f"{what} must be seconds or a timedelta, not {_kind(value)}")
    if above_zero and micros <= 0:
        raise InvalidInput(f"{what} must be more than 0 seconds; leave it out for no {what}")
    if micros < 0:
        raise InvalidInput(f"{what} is negative; give 0 or more seconds")
    if micros > MAX_INSTANT:
        raise InvalidInput(f"{what} would end after the year 9999; give fewer seconds")
    return micros


def check_timeout(value: object) -> float | None:
    """Check the seconds that a caller waits; None waits indefinitely."""
    return None if value is None else check_duration("timeout", value) / SECOND


def check_instant(what: str, value: object) -> int:
    """Return an aware datetime as microseconds since 1970."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"{what} must be a datetime, not {_kind(value)}")
    if value.utcoffset() is None:
        raise InvalidInput(f"{what} has no time zone; pass an aware datetime, such as datetime.now(UTC)")
    micros = (value - _EPOCH) // _MICROSECOND
    if not MIN_INSTANT <= micros <= MAX_INSTANT:
        raise InvalidInput(f"{what} is {value.isoformat()}, which in UTC is not in the years 1 to 9999")
    return micros


def check_priority(value: object) -> int:
    """Check a priority: a whole number of 16 bits; higher runs first."""
    return _whole("the priority", value, MIN_PRIORITY, MAX_PRIORITY)


def check_limit(what: str, value: object) -> int:
    """Check a concurrency limit: a whole number from 1."""
    return _whole(what, value, 1, 1_000_000)


def check_cap(value: object) -> int:
    """Check a cap, how many are kept at most: a whole number from 0."""
    return _whole("cap", value, 0, 1_000_000_000)


def check_rate(what: str, value: object) -> float:
    """Check tokens, or tokens per second: more than 0 and finite."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise InvalidInput(f"{what} must be a number, not {_kind(value)}")
    if not 0 < value < 1e9:
        raise InvalidInput(f"{what} is {value}; give a number above 0")
    return float(value)


def check_attempts(value: object, what: str = "max_attempts") -> int:
    """Check attempts: 1 to 1,000, or None for no limit, which is stored as 0."""
    return UNLIMITED if value is None else _whole(what, value, 1, MAX_ATTEMPTS)


def _word(what: str, value: object) -> str:
    name = check_name(what, value)
    for character in name:
        if character == "," or character.isspace() or _is_invisible(character):
            raise InvalidInput(f"{what} {name!a} contains {_describe(character)}; use - or _ instead")
    return name


def _whole(what: str, value: object, lowest: int, highest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(f"{what} must be a whole number, not {_kind(value)}")
    if not lowest <= value <= highest:
        raise InvalidInput(f"{what} is out of range; use {lowest:,} to {highest:,}")
    return int(value)


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be text, not {_kind(value)}")
    # Not str(value), which for a member of a text enum would be the member's name.
    return str.__str__(value)


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__qualname__


def _is_none(character: str) -> bool:
    """Return True for the 66 noncharacters of Unicode; the last of them sorts above every id in lists of jobs."""
    return ord(character) & 0xFFFE == 0xFFFE or "\ufdd0" <= character <= "\ufdef"


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) == "Cf" or character in _BLANK or _is_variation_selector(character)


def _is_variation_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def _describe(character: str) -> str:
    name = unicodedata.name(character, "no character" if _is_none(character) else "a control character").lower()
    return f"U+{ord(character):04X}, {name}"
