"""The values that a type allows, for errors about one that it does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec.inspect as shapes


def allowed_values(type_: Any, wrong: str) -> str:
    """Return the addition to msgspec's message about an enum, which names the wrong value but not the allowed ones."""
    if not wrong.startswith("Invalid enum value"):
        return ""
    _, _, path = wrong.partition(" - at `$")
    found = [shapes.type_info(type_)]
    for name in re.findall(r"\.(\w+)|\[", path):
        found = [inner for one in _parts(found) for inner in _inside(one, name)]
    values = [str(value) for one in _parts(found) for value in _values(one)]
    return f"; use one of {', '.join(values)}" if values else ""


def _parts(found: list[shapes.Type]) -> Iterator[shapes.Type]:
    for one in found:
        if isinstance(one, shapes.UnionType):
            yield from _parts(list(one.types))
        else:
            yield one


def _inside(one: shapes.Type, name: str) -> Iterator[shapes.Type]:
    if isinstance(one, (shapes.StructType, shapes.DataclassType)):
        yield from (field.type for field in one.fields if field.encode_name == name)
    elif isinstance(one, shapes.DictType):
        yield one.value_type
    elif not name and (item := getattr(one, "item_type", None)) is not None:
        yield item


def _values(one: shapes.Type) -> tuple[Any, ...]:
    if isinstance(one, shapes.EnumType):
        return tuple(member.value for member in one.cls)
    return one.values if isinstance(one, shapes.LiteralType) else ()
