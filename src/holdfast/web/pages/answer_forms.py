"""Forms for answers to waitpoints, built from their JSON schemas, and the conversion of input to values.

Supported are booleans, choices, numbers, texts, and objects of such fields. Anything else is entered as JSON: the store
validates the answer against the schema again, so a form may be simpler.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from ...errors import InvalidInput

Kind: TypeAlias = Literal["boolean", "choice", "integer", "number", "string", "object", "json"]
_MOST_FIELDS: Final = 30
_MOST_CHOICES: Final = 100
_LONGEST: Final = 200
_DEEPEST: Final = 8


@dataclass(frozen=True, slots=True)
class Field:
    """A form field. A choice is sent as its index."""

    kind: Kind
    name: str = ""
    label: str = ""
    hint: str = ""
    required: bool = True
    nullable: bool = False
    choices: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    default: str = ""
    long: bool = False
    """True if the text may have several lines."""
    fields: tuple[Field, ...] = field(default=())


def form_of(schema: Any) -> Field:
    """Return the form for a schema."""
    return _field(schema, schema, 0) if isinstance(schema, dict) else Field("json")


def payload_of(form: Field, values: Sequence[str], raw: str) -> Any:
    """Return the input as the value to send. `values` are those of the fields in order."""
    if form.kind == "json":
        return _json("the answer", raw)
    fields = form.fields if form.kind == "object" else (form,)
    if len(values) != len(fields):
        raise InvalidInput("the expected input has changed; reload the page")
    if form.kind != "object":
        return _read(form, values[0], "the answer")
    given = {one.name: (one, text) for one, text in zip(fields, values, strict=True)}
    return {
        name: _read(one, text, name) for name, (one, text) in given.items() if text.strip() or one.required
    }  # fmt: skip


def _field(schema: Any, root: Mapping[str, Any], depth: int, name: str = "", *, required: bool = True) -> Field:
    found, nullable = _resolved(schema, root, depth)
    about: dict[str, Any] = {
        "name": name,
        "label": name or _words(found.get("title")),
        "hint": _words(found.get("description")),
        "required": required,
        "nullable": nullable,
    }
    if values := _choices(found):
        said = tuple(value if isinstance(value, str) else json.dumps(value) for value in values)
        return Field("choice", choices=said, values=tuple(values), default=_place(found, values), **about)
    kind = found.get("type")
    if kind == "object" and depth == 0 and (fields := _fields(found, root)):
        return Field("object", fields=fields, **about)
    if kind in ("boolean", "integer", "number", "string"):
        default = found.get("default")
        text = "" if default is None else default if isinstance(default, str) else json.dumps(default)
        long = kind == "string" and found.get("maxLength", _LONGEST) >= _LONGEST and not found.get("format")
        return Field(kind, default=_words(text), long=long, **about)
    return Field("json", **about)


def _fields(found: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[Field, ...]:
    properties = found.get("properties")
    if not isinstance(properties, dict) or not 1 <= len(properties) <= _MOST_FIELDS:
        return ()
    needed = found.get("required", [])
    return tuple(
        _field(schema, root, 1, str(name), required=name in needed) for name, schema in properties.items()
    )  # fmt: skip


def _resolved(schema: Any, root: Mapping[str, Any], depth: int) -> tuple[Mapping[str, Any], bool]:
    """Return the schema with references resolved, and whether null is allowed too."""
    nullable = False
    for _ in range(_DEEPEST):
        if not isinstance(schema, dict):
            return {}, nullable
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(schema.get("$ref"), str):
            schema = _target(schema["$ref"], root)
        elif isinstance(options, list) and {"type": "null"} in options and len(options) == 2:
            nullable = True
            schema = next(one for one in options if one != {"type": "null"})
        else:
            return schema, nullable
    return {}, nullable


def _target(reference: str, root: Any) -> Any:
    found = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def _choices(found: Mapping[str, Any]) -> list[Any]:
    values = [found["const"]] if "const" in found else found.get("enum", [])
    simple = isinstance(values, list) and all(isinstance(value, str | int | float | None) for value in values)
    return values if simple and len(values) <= _MOST_CHOICES else []


def _place(found: Mapping[str, Any], values: Sequence[Any]) -> str:
    return str(values.index(found["default"])) if found.get("default") in values else ""


def _read(form: Field, text: str, what: str) -> Any:
    if not text.strip() and form.nullable:
        return None
    if form.kind == "string":
        return text
    if form.kind == "boolean":
        return _answer(text, what)
    if form.kind == "choice":
        return _choice(form, text, what)
    if form.kind in ("integer", "number"):
        return _number(form.kind, text, what)
    return _json(what, text)


def _answer(text: str, what: str) -> bool:
    if text not in ("yes", "no"):
        raise InvalidInput(f"{what}: choose yes or no")
    return text == "yes"


def _choice(form: Field, text: str, what: str) -> Any:
    if not text.isdecimal() or len(text) > 3 or int(text) >= len(form.values):
        raise InvalidInput(f"{what}: choose one of {', '.join(form.choices)}")
    return form.values[int(text)]


def _number(kind: str, text: str, what: str) -> int | float:
    try:
        # An integer keeps all its digits.
        return int(text) if kind == "integer" or text.strip().lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise InvalidInput(f"{what} is {text[:40]!r}; give a {'whole ' if kind == 'integer' else ''}number") from None


def _json(what: str, text: str) -> Any:
    try:
        return json.loads(text) if text.strip() else None
    except (ValueError, RecursionError) as wrong:
        raise InvalidInput(f"{what}: not valid JSON: {wrong}") from None


def _words(text: object) -> str:
    return text[:_LONGEST] if isinstance(text, str) else ""
