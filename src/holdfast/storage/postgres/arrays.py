"""Rows to arrays and back: how one statement serves a whole list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..port import Params, Row, Value


def transpose(rows: Sequence[Params], common: Mapping[str, Value]) -> dict[str, Any]:
    """One list for each name in `rows`, and the common values as they are."""
    names = rows[0].keys()
    if any(row.keys() != names for row in rows):
        raise ValueError("the rows of one statement must share one set of names")
    return {**{name: [row[name] for row in rows] for name in names}, **common}


def in_order(answers: Sequence[Row], count: int) -> list[Row | None]:
    """The answers by their ordinal, which is their first column and is removed; None where there is no answer."""
    found: list[Row | None] = [None] * count
    for ordinal, *rest in answers:
        found[ordinal - 1] = tuple(rest)
    return found
