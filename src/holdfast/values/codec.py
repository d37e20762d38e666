"""Converts values to JSON text and back. JSON only: nothing read here can name code to run.

`encode` refuses what JSON would silently change (NaN, naive datetimes, offsets with seconds, keys that collide, models
that hide a field) and what a reader could not accept (lone surrogates, great depth, great size). The checks read the
text first and walk the value only if the text is not conclusive, so that an ordinary payload costs a few hundred
nanoseconds.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, time
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from ..errors import InvalidArguments, PayloadTooLarge, Undecodable, UnexpectedReference
from .lossy_json import changed_fields, repeated_key
from .references import Reference

T = TypeVar("T")

PAYLOAD_LIMIT: Final = 256 * 1024
"""Limit for values that are always stored in a row."""
VALUE_LIMIT: Final = 64 * 1024 * 1024
"""Limit for arguments, results, step values and signals, unless the setting max_value_bytes says otherwise."""
MAX_DEPTH: Final = 64

# A text shorter than this cannot open and close more than MAX_DEPTH levels.
_DEEP_LENGTH: Final = 2 * (MAX_DEPTH + 1)
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
# The text that msgspec writes for a datetime. One whose offset is below a minute looks as if it were in UTC.
_MOMENT: Final = re.compile(r'"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)?"')
# The text for a time.
_CLOCK: Final = re.compile(r'"\d\d:\d\d:\d\d')
# The word in msgspec's errors, which speak of JSON; not a value that they quote.
_NULL: Final = re.compile(r"(?<!')\bnull\b(?!')")


def encode(value: object, *, what: str = "the value", limit: int = PAYLOAD_LIMIT, whole: bool = True) -> str:
    """Return the JSON text of `value`. `what` names it in errors, `limit` is in bytes of UTF-8.

    Unless `whole`, models may leave out hidden fields.
    """
    text = encode_flat(value, what=what, limit=limit, whole=whole)
    if not _is_flat(value):
        _inspect_parts(value, text, what)
    return text


def encode_flat(value: object, *, what: str, limit: int, whole: bool = True) -> str:
    """Encode a dict by name that is known to contain no other objects and no times."""
    try:
        data = _encode_whole(value) if whole else _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise InvalidArguments(f"{what}: {_blame(value, exc)}") from exc
    if len(data) > limit:
        raise PayloadTooLarge(what, len(data), limit, *([_RAISE] if limit > PAYLOAD_LIMIT else []))
    text = data.decode()
    # msgspec writes NaN and the infinities as null, and every datetime with a T.
    if "null" in text or "T" in text or len(text) >= _DEEP_LENGTH:
        _inspect(value, text, what)
    return text


def plain(value: object, *, what: str = "the value", keep: tuple[type, ...] = ()) -> Any:
    """Return `value` as dicts, lists, texts and numbers; datetimes, times, references and `keep` types stay."""
    try:
        return msgspec.to_builtins(value, builtin_types=(datetime, time, Reference, *keep), enc_hook=_to_plain)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise InvalidArguments(f"{what}: {exc}") from exc


def decode(text: str | bytes, type: Any = Any, *, what: str = "the stored value") -> Any:
    """Return the value of JSON `text`, converted to `type`. If a key occurs twice, the last one counts."""
    return read(decoder(type), text, what)


def decoder(type: Any) -> msgspec.json.Decoder[Any]:
    """Return a reusable decoder. Raises TypeError for a type that JSON cannot be read into."""
    try:
        return _cached_decoder(type)
    except TypeError:
        # Not hashable, such as Annotated with a mutable extra; or not supported, then the next line raises again.
        return msgspec.json.Decoder(type, dec_hook=_from_plain)


def read(decoder: msgspec.json.Decoder[T], text: str | bytes, what: str) -> T:
    """Decode, raising only Undecodable."""
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise Undecodable(f"{what}: {explain(exc)}") from exc


def explain(exc: Exception) -> str:
    """Return msgspec's error in our words: "user_id: expected int, got str"."""
    if isinstance(exc, RecursionError):
        return f"it is nested deeper than {MAX_DEPTH} levels"
    reason, _, place = str(exc).replace("`", "").partition(" - at ")
    reason = _NULL.sub("None", reason[:1].lower() + reason[1:])
    return f"{place.removeprefix('$').removeprefix('.')}: {reason}" if place.strip("$") else reason


def _inspect(value: object, text: str, what: str) -> None:
    if len(text) >= _DEEP_LENGTH and _is_deep(text):
        raise InvalidArguments(f"{what}: it {_TOO_DEEP}")
    if "null" in text or _MOMENT.search(text):
        _refuse_faults(value, what)


def _inspect_parts(value: object, text: str, what: str) -> None:
    # A time has colons that do not follow a key.
    if text.count(":") > text.count('":') and _CLOCK.search(text):
        _refuse_faults(value, what)
    # Decoded and encoded again, the text differs if two keys collide: measured no slower than a walk.
    if "{" in text and _encode(_decode(text)).decode() != text:
        _refuse_collision(value, text, what)


def _is_flat(value: object) -> bool:
    if type(value) is not dict:
        return type(value) in _SCALARS
    for key, item in value.items():  # noqa: SIM110 - measured twice as fast as all()
        if type(key) is not str or type(item) not in _SCALARS:
            return False
    return True


def _refuse_faults(value: object, what: str) -> None:
    plain = msgspec.to_builtins(value, builtin_types=(datetime, time), enc_hook=_to_plain)
    if _has_fault(plain):
        path, leaf = next((path, leaf) for path, leaf in _leaves(plain, "") if _fault(leaf))
        raise InvalidArguments(f"{what}: {path or 'the value'} is {leaf!r}: {_fault(leaf)}")


def _refuse_collision(value: object, text: str, what: str) -> None:
    if (key := repeated_key(text)) is None:
        return
    items = value.items() if isinstance(value, dict) else ()
    place = next((name for name, item in items if repeated_key(_encode(item)) is not None), "it")
    raise InvalidArguments(f"{what}: {place} has two keys that are {key!r} in JSON; pass texts that differ as keys")


def _is_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    outside_strings = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])
    brackets = outside_strings.encode().translate(_SQUARE, _NOT_BRACKETS)
    # Each round removes the innermost level: measured three times as fast as counting up and down.
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    return True


def _has_fault(value: object) -> bool:
    # Measured four to six times as fast as `_leaves`, which also builds the paths.
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is dict:
            stack.extend(item)
            stack.extend(item.values())
        elif kind is list or kind is tuple:
            stack.extend(item)
        elif kind is not str and kind is not int and item is not None and _fault(item):
            return True
    return False


def _leaves(value: Any, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"the key {key!r}", key
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def _fault(leaf: object) -> str | None:
    if isinstance(leaf, float) and not math.isfinite(leaf):
        return "JSON has no such number; pass None or a text instead"
    if isinstance(leaf, datetime):
        offset = leaf.utcoffset()
        if offset is None:
            return "a datetime without a time zone; pass an aware one, such as datetime.now(UTC)"
        if offset.total_seconds() % 60:
            return "its offset from UTC has seconds, which JSON cannot keep; pass it as .astimezone(UTC)"
    if isinstance(leaf, time) and leaf.tzinfo is not None:
        offset = leaf.utcoffset()
        if offset is None:
            return "its offset from UTC depends on the day, so JSON cannot keep its zone; pass an aware datetime"
        if offset.total_seconds() % 60:
            return "its offset from UTC has seconds, which JSON cannot keep; pass it without them"
    return None


def _blame(value: object, exc: Exception) -> str:
    """Return which part of `value` cannot be encoded, and why."""
    path = ""
    while (inner := _failing_part(value)) is not None:
        step, value, exc = inner
        path += step
        if isinstance(exc, RecursionError):
            break
    return f"{path.removeprefix('.') or 'the value'} {_reason(value, exc)}"


def _failing_part(value: object) -> tuple[str, object, Exception] | None:
    parts: Iterator[tuple[str, object]] = iter(())
    if isinstance(value, dict):
        parts = ((f".{key}", item) for key, item in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = ((f"[{index}]", item) for index, item in enumerate(value))
    for step, item in parts:
        try:
            _encode_whole(item)
        except (TypeError, ValueError, OverflowError, RecursionError) as exc:
            return step, item, exc
    return None


def _reason(value: object, exc: Exception) -> str:
    if isinstance(exc, RecursionError):
        return _TOO_DEEP
    if isinstance(exc, UnicodeEncodeError):
        return "holds a lone surrogate, which is not a character; decode the text with the right encoding first"
    if isinstance(value, int):
        return f"has more digits than {sys.get_int_max_str_digits():,}; pass it as text"
    name = type(value).__qualname__
    if inspect.iscoroutine(value):
        return "is a coroutine that was not awaited; await it, or make the task an async def"
    if is_row(value):
        return f"({name}) is {A_ROW}"
    return f"({name}) cannot be written as JSON; pass plain data, a dataclass or a msgspec Struct: {exc}"


def _to_plain(value: Any) -> Any:
    """Convert what msgspec cannot encode: pydantic models, and subclasses of text and numbers."""
    if _is_pydantic(type(value)):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    for base, plain in _PLAIN:
        if isinstance(value, base):
            return plain(value)
    if isinstance(value, Reference):
        raise UnexpectedReference(value)
    if hasattr(value, "output"):
        raise TypeError("cannot pass a flow member itself; pass member.output")
    raise TypeError(f"no JSON form of {type(value).__qualname__} is known")


def _to_plain_whole(value: Any) -> Any:
    plain = _to_plain(value)
    # Values that JSON cannot express are refused later, with their place.
    if _is_pydantic(type(value)) and not _has_fault(plain) and (changed := changed_fields(value, plain)):
        raise TypeError(f"read back, it would differ in {', '.join(changed)}; or pass its model_dump(mode='json')")
    return plain


def _from_plain(type: Any, value: Any) -> Any:
    if _is_pydantic(type):
        # As JSON again, because a strict model accepts text for a UUID only from JSON.
        return type.model_validate_json(_encode(value))
    if isinstance(value, type):
        return value
    raise TypeError(f"{getattr(type, '__qualname__', type)} has no JSON form")


def _is_pydantic(type: Any) -> bool:
    """Return True for a pydantic model; if pydantic was never imported, it is not one."""
    return "pydantic" in sys.modules and hasattr(type, "model_validate_json")


A_ROW: Final = "an object of your database; pass its primary key, and load it in the task"


def is_row(value: object) -> bool:
    """Return True for a model of Django or peewee, or of a class that SQLAlchemy or SQLModel maps to a table."""
    kind = type(value)
    is_model = any(base.__module__.startswith(("django.db.models", "peewee")) for base in kind.__mro__)
    return is_model or hasattr(kind, "__mapper__")


@lru_cache(maxsize=1024)
def _cached_decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type, dec_hook=_from_plain)


_PLAIN: Final[tuple[tuple[type, Callable[[Any], Any]], ...]] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
)
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_RAISE: Final = "store it as an artifact or elsewhere and pass a reference, or raise the setting max_value_bytes"
_TOO_DEEP: Final = f"is nested deeper than {MAX_DEPTH} levels, or contains itself; flatten it"
_encode: Final = msgspec.json.Encoder(enc_hook=_to_plain).encode
_encode_whole: Final = msgspec.json.Encoder(enc_hook=_to_plain_whole).encode
_decode: Final = msgspec.json.Decoder().decode
