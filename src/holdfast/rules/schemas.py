"""JSON schemas of payloads: made from a type to show a form, and checked where a signal is sent.

The check knows the keywords that schemas of msgspec and pydantic types use and ignores others: the waiting job decodes
the payload into the type itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from ..errors import InvalidInput
from ..values.codec import encode

Schema: TypeAlias = "Mapping[str, Any] | bool"
_DEEPEST: Final = 64


def schema_of(type: Any) -> str | None:
    """Return the JSON schema of a type; None if it has none, as for Any."""
    if type is Any or type is None:
        return None
    try:
        found = msgspec.json.schema(type, schema_hook=_foreign)
    except (TypeError, NotImplementedError, RuntimeError):
        return None
    return msgspec.json.encode(found).decode() if found else None


def misfit(schema: str, payload: str | bytes) -> str | None:
    """Return the first thing wrong with a payload, such as "amount: expected integer"; None if it fits."""
    root = msgspec.json.decode(schema)
    return next(_faults(root, msgspec.json.decode(payload), "", root, 0), None)


def _foreign(type: Any) -> dict[str, Any]:
    if hasattr(type, "model_json_schema"):
        found: dict[str, Any] = type.model_json_schema()
        return found
    raise NotImplementedError


def _faults(schema: Schema, value: Any, path: str, root: Any, depth: int) -> Iterator[str]:
    if schema is True or depth > _DEEPEST:
        return
    if schema is False:
        yield _at(path, "nothing is expected here")
        return
    if "$ref" in schema:
        yield from _faults(_target(schema["$ref"], root), value, path, root, depth + 1)
    for word, check in _CHECKS.items():
        if word in schema and (fault := check(schema[word], value)):
            yield _at(path, fault)
            return
    yield from _combined(schema, value, path, root, depth + 1)
    if isinstance(value, dict):
        yield from _in_object(schema, value, path, root, depth + 1)
    elif isinstance(value, list):
        yield from _in_array(schema, value, path, root, depth + 1)


def _combined(schema: Mapping[str, Any], value: Any, path: str, root: Any, depth: int) -> Iterator[str]:
    for part in schema.get("allOf", ()):
        yield from _faults(part, value, path, root, depth)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            tried = [next(_faults(part, value, path, root, depth), None) for part in schema[word]]
            if all(tried):
                yield tried[0] if len(tried) == 1 and tried[0] else _at(path, "it fits none of the forms expected")


def _in_object(schema: Mapping[str, Any], value: dict[str, Any], path: str, root: Any, depth: int) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield _at(path, f"the field {name!r} is missing")
    other = schema.get("additionalProperties", True)
    for name, item in value.items():
        yield from _faults(known.get(name, other), item, f"{path}.{name}" if path else name, root, depth)


def _in_array(schema: Mapping[str, Any], value: list[Any], path: str, root: Any, depth: int) -> Iterator[str]:
    first = schema.get("prefixItems", ())
    rest = schema.get("items", True)
    for index, item in enumerate(value):
        yield from _faults(first[index] if index < len(first) else rest, item, f"{path}[{index}]", root, depth)


def _target(reference: str, root: Any) -> Schema:
    found = root
    for name in reference.removeprefix("#/").split("/"):
        found = found.get(name.replace("~1", "/").replace("~0", "~"), True) if isinstance(found, dict) else True
    return found  # type: ignore[no-any-return]


def _type(wanted: str | list[str], value: Any) -> str | None:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    if any(_is(kind, value) for kind in kinds):
        return None
    return f"expected {' or '.join(kinds)}, got {_name(value)}"


def _is(kind: str, value: Any) -> bool:
    if kind == "integer":
        return not isinstance(value, bool) and _is_whole(value)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return kind not in _NAMES.values() or _name(value) == kind


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _name(value: Any) -> str:
    return _NAMES[type(value)]


def _at(path: str, fault: str) -> str:
    return f"{path}: {fault}" if path else fault


def _bound(words: str, holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], str | None]:
    def check(limit: Any, value: Any) -> str | None:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or holds(value, limit):
            return None
        return f"expected {words} {limit}"

    return check


def _size(
    kind: type[str] | type[list[Any]] | type[dict[str, Any]], words: str, holds: Callable[[int, int], bool]
) -> Callable[[Any, Any], str | None]:
    def check(limit: Any, value: Any) -> str | None:
        return None if not isinstance(value, kind) or holds(len(value), limit) else f"expected {words.format(limit)}"

    return check


def _matches(pattern: str, value: Any) -> str | None:
    found = not isinstance(value, str) or (compiled := _compiled(pattern)) is None or compiled.search(value)
    return None if found else f"it does not match {pattern!r}"


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except re.error:
        return None


def _multiple(of: Any, value: Any) -> str | None:
    if (
        not isinstance(value, (int, float))
        or isinstance(value, bool)
        or math.isclose(math.remainder(value, of), 0, abs_tol=1e-9)
    ):
        return None
    return f"expected a multiple of {of}"


_NAMES: Final = {
    type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object",
}  # fmt: skip
_CHECKS: Final[Mapping[str, Callable[[Any, Any], str | None]]] = {
    "type": _type,
    "enum": lambda options, value: None if value in options else f"expected one of {options}",
    "const": lambda wanted, value: None if value == wanted else f"expected {wanted!r}",
    "minimum": _bound("at least", lambda value, limit: value >= limit),
    "maximum": _bound("at most", lambda value, limit: value <= limit),
    "exclusiveMinimum": _bound("more than", lambda value, limit: value > limit),
    "exclusiveMaximum": _bound("less than", lambda value, limit: value < limit),
    "multipleOf": _multiple,
    "minLength": _size(str, "at least {} characters", lambda size, limit: size >= limit),
    "maxLength": _size(str, "at most {} characters", lambda size, limit: size <= limit),
    "minItems": _size(list, "at least {} items", lambda size, limit: size >= limit),
    "maxItems": _size(list, "at most {} items", lambda size, limit: size <= limit),
    "minProperties": _size(dict, "at least {} fields", lambda size, limit: size >= limit),
    "maxProperties": _size(dict, "at most {} fields", lambda size, limit: size <= limit),
    "pattern": _matches,
}


LIMIT: Final = 16 * 1024
"""Bytes of a schema."""
_Number = int | float
_Size = Annotated[int, msgspec.Meta(ge=0)]


class _Words(msgspec.Struct, kw_only=True):
    """The keywords that are checked, with the types that they must have."""

    type: str | list[str] = ""
    enum: list[Any] = []
    required: list[str] = []
    properties: dict[str, _Words | bool] = {}
    additionalProperties: _Words | bool = True
    prefixItems: list[_Words | bool] = []
    items: _Words | bool = True
    allOf: list[_Words | bool] = []
    anyOf: list[_Words | bool] = []
    oneOf: list[_Words | bool] = []
    minimum: _Number = 0
    maximum: _Number = 0
    exclusiveMinimum: _Number = 0
    exclusiveMaximum: _Number = 0
    multipleOf: Annotated[float, msgspec.Meta(gt=0)] = 1
    minLength: _Size = 0
    maxLength: _Size = 0
    minItems: _Size = 0
    maxItems: _Size = 0
    minProperties: _Size = 0
    maxProperties: _Size = 0
    pattern: None = None
    reference: None = msgspec.field(name="$ref", default=None)


def check_schema(schema: object) -> str | None:
    """Check a schema and return it as it is stored; None is any payload."""
    if schema is None:
        return None
    if not isinstance(schema, Mapping):
        raise InvalidInput(f"a schema is an object, not {type(schema).__name__}")
    text = encode(dict(schema), what="the schema", limit=LIMIT)
    try:
        msgspec.json.decode(text, type=_Words)
    except msgspec.ValidationError as wrong:
        raise InvalidInput(f"the schema cannot be used ({wrong}); $ref and pattern must be left out") from wrong
    return text
