"""JSON schemas that come from elsewhere. A sender of a signal is checked against them, so they must be harmless.

Only words whose check takes no longer than the payload is long: a pattern, or a reference to itself, could take for
ever. Words that say nothing here are kept for whoever shows a form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from ..codec import encode
from ..errors import InvalidInput

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
    """A schema as it is stored; None is any payload."""
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
