"""Rows to parameters and back: how one statement serves a whole list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..port import Params, Row, Value
from ..statements import Statement

_encode = msgspec.json.Encoder().encode


def parameters(statement: Statement, rows: Sequence[Params], common: Mapping[str, Value]) -> dict[str, Any]:
    """What a statement takes for all `rows` at once, and the common values as they are.

    One that says `:items` gets a JSON document of objects, each with its ordinal `n`; any other gets one array for
    each name in `rows`.
    """
    names = rows[0].keys()
    if any(row.keys() != names for row in rows):
        raise ValueError("the rows of one statement must share one set of names")
    if statement.takes_items:
        items = [{"n": n, **row} for n, row in enumerate(rows, 1)]
        return {"items": _encode(items).decode(), **common}
    return {**{name: [row[name] for row in rows] for name in names}, **common}


def in_order(answers: Sequence[Row], count: int) -> list[Row | None]:
    """The answers by their ordinal, which is their first column and is removed; None where there is no answer."""
    found: list[Row | None] = [None] * count
    for ordinal, *rest in answers:
        found[ordinal - 1] = tuple(rest)
    return found
