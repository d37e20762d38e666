"""Finds values that would change on the way through JSON: text for bytes, keys that collide, hidden fields.

JSON writes bytes as base64, so any text of the right letters would be read as bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import inspect

Part: TypeAlias = "tuple[str, inspect.Type, Any]"

_BYTES: Final = (inspect.BytesType, inspect.ByteArrayType, inspect.MemoryViewType)
_ARRAYS: Final = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)
_OBJECTS: Final = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)


def asks_for_bytes(hint: Any) -> inspect.Type | None:
    """Return the type information if the hint asks for bytes anywhere; otherwise None."""
    try:
        return _asks(hint)
    except TypeError:
        return None  # Not hashable, such as Annotated with a mutable extra.


def takes_text_keys(hint: Any) -> bool:
    """Return whether the hint asks for a mapping whose keys JSON returns as text: `dict`, `dict[str, int] | None`."""
    try:
        return _takes_text_keys(hint)
    except TypeError:
        return False


def text_for_bytes(asked: inspect.Type, value: Any) -> str | None:
    """Return the path of the first text in `value` that would be read as bytes. `value` is plain except for bytes."""
    return next(_texts_for_bytes("", asked, value), None)


def repeated_key(text: str | bytes) -> str | None:
    """Return a key that an object in JSON `text` has twice."""
    repeated: list[str] = []

    def note_repeated(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                repeated.append(key)
            seen.add(key)

    json.loads(text, object_pairs_hook=note_repeated)
    return repeated[0] if repeated else None


def changed_fields(model: Any, plain: Any) -> list[str]:
    """Return the fields of a pydantic model that a dump loses: secrets, dumped as stars, and excluded fields."""
    try:
        back = type(model).model_validate_json(msgspec.json.encode(plain))
    except Exception:
        # A write-only model; if it is to be read, the reader's own check reports the reason.
        return []
    if back == model:
        return []
    changed = [name for name in type(model).model_fields if getattr(back, name) != getattr(model, name)]
    return changed or ([] if back.model_extra == model.model_extra else ["what it has beside its fields"])


@lru_cache(maxsize=1024)
def _asks(hint: Any) -> inspect.Type | None:
    asked = inspect.type_info(hint)
    seen, stack = set[int](), [asked]
    while stack:
        part = stack.pop()
        if isinstance(part, _BYTES):
            return asked
        if id(part) not in seen:
            seen.add(id(part))
            stack += _parts(part)
    return None


@lru_cache(maxsize=1024)
def _takes_text_keys(hint: Any) -> bool:
    asked = inspect.type_info(hint)
    while isinstance(asked, inspect.Metadata):
        asked = asked.type
    members = asked.types if isinstance(asked, inspect.UnionType) else (asked,)
    return any(
        isinstance(member, inspect.DictType) and isinstance(member.key_type, (inspect.AnyType, inspect.StrType))
        for member in members
    )


def _parts(asked: inspect.Type) -> list[inspect.Type]:
    match asked:
        case inspect.Metadata():
            return [asked.type]
        case inspect.UnionType():
            return list(asked.types)
        case inspect.TupleType():
            return list(asked.item_types)
        case inspect.DictType():
            return [asked.key_type, asked.value_type]
        case inspect.NamedTupleType():
            return [field.type for field in asked.fields]
        case _ if isinstance(asked, _ARRAYS):
            return [asked.item_type]
        case _:
            return [field.type for field in asked.fields] if isinstance(asked, _OBJECTS) else []


def _texts_for_bytes(path: str, asked: inspect.Type, value: Any) -> Iterator[str]:
    while isinstance(asked, inspect.Metadata):
        asked = asked.type
    if isinstance(asked, inspect.UnionType):
        fit = [member for member in asked.types if _fits(member, value)]
        # Among several object types only a tag decides, which the decoder checks.
        if len(fit) == 1:
            yield from _texts_for_bytes(path, fit[0], value)
    elif isinstance(value, str):
        if isinstance(asked, _BYTES):
            yield path
    elif _fits(asked, value):
        for step, part, item in _inside(asked, value):
            yield from _texts_for_bytes(path + step, part, item)


def _fits(asked: inspect.Type, value: Any) -> bool:
    if isinstance(asked, inspect.Metadata):
        return _fits(asked.type, value)
    if isinstance(value, str):
        return isinstance(asked, _BYTES)
    if isinstance(value, dict):
        return isinstance(asked, (inspect.DictType, *_OBJECTS))
    arrays = (inspect.TupleType, inspect.NamedTupleType, *_ARRAYS)
    return isinstance(value, (list, tuple, set, frozenset)) and isinstance(asked, arrays)


def _inside(asked: inspect.Type, value: Any) -> Iterator[Part]:
    """Yield the parts of a value, each with its path and expected type."""
    match asked:
        case inspect.DictType():
            for key, item in value.items():
                yield f": the key {key!r}", asked.key_type, key
                yield f".{key}", asked.value_type, item
        case inspect.TupleType() | inspect.NamedTupleType():
            for index, (part, item) in enumerate(zip(_parts(asked), value, strict=False)):
                yield f"[{index}]", part, item
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType():
            for field in asked.fields:
                if field.encode_name in value:
                    yield f".{field.encode_name}", field.type, value[field.encode_name]
        case _:
            for index, item in enumerate(value):
                yield f"[{index}]", asked.item_type, item  # type: ignore[attr-defined]
