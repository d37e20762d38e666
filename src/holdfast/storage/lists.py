"""Rows to parameters and back: one statement serves a whole list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from .port import ListOp, Op, Params, Row, Tx, Value
from .statements import Statement

Answers: TypeAlias = list[Any]

_encode = msgspec.json.Encoder().encode
# A document is parsed as a whole: results of 256 KiB each would be 256 MiB in one of a thousand.
_DOCUMENT: Final = 1 << 20


def parameters(statement: Statement, rows: Sequence[Params], common: Mapping[str, Value]) -> dict[str, Any]:
    """Return the parameters of a Postgres statement for all `rows` at once, and the common values unchanged.

    A statement with `:items` gets a JSON document of objects, each with its ordinal `n`; any other gets one array for
    each name in `rows`.
    """
    names = rows[0].keys()
    if any(row.keys() != names for row in rows):
        raise ValueError("the rows of one statement must share one set of names")
    if statement.takes_items:
        items = [{"n": n, **row} for n, row in enumerate(rows, 1)]
        return {"items": _encode(items).decode(), **common}
    return {**{name: [row[name] for row in rows] for name in names}, **common}


def named(names: tuple[str, ...], rows: Sequence[Row]) -> list[Params]:
    """Convert rows of values to rows by name."""
    return [dict(zip(names, row, strict=True)) for row in rows]


def in_order(answers: Sequence[Row], count: int) -> list[Row | None]:
    """Sort the answers by their ordinal, their first column, which is removed; None where there is no answer."""
    found: list[Row | None] = [None] * count
    for ordinal, *rest in answers:
        found[ordinal - 1] = tuple(rest)
    return found


@cache
def copied(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the table and the columns of a COPY, or of the INSERT in its place."""
    match = re.match(r"(?:copy|insert into) (\w+) \((.*?)\)", text, re.DOTALL)
    assert match is not None
    return match[1], tuple(name.strip() for name in match[2].split(","))


def documents(rows: Sequence[Params]) -> Iterator[str]:
    """Return the rows as JSON documents, few and none too large."""
    if len(whole := _encode(rows)) <= _DOCUMENT:
        yield whole.decode()
        return
    parts: list[bytes] = []
    size = 0
    for row in rows:
        part = _encode(row)
        if size and size + len(part) > _DOCUMENT:
            yield _joined(parts)
            parts, size = [], 0
        parts.append(part)
        size += len(part)
    if parts:
        yield _joined(parts)


def by_run(answers: Sequence[Row], rows: Sequence[Params]) -> list[Row | None]:
    """Return the answers by the id and epoch of their row, their first columns; None where there is none.

    Not by the id alone: one batch may have outcomes of two runs of one job, of which only the last counts.
    """
    found = {answer[:2]: answer[2:] for answer in answers}
    return [found.get((row["id"], row["epoch"])) for row in rows]


def merged(ops: Sequence[ListOp[Any, Any]]) -> Op[Answers]:
    """Merge operations of one kind into one over the items of all."""
    run = ops[0].run
    items = [item for op in ops for item in op.items]

    async def run_all(tx: Tx) -> Answers:
        answers = await run(tx, items)
        if len(answers) != len(items):
            raise RuntimeError(f"{run!r} gave {len(answers)} answers for {len(items)} items")
        return answers

    # One item is one statement, which alone needs neither BEGIN nor COMMIT: one round trip instead of three.
    return Op(run_all, single=len(items) == 1)


def split(ops: Sequence[ListOp[Any, Any]], answers: Answers) -> list[Answers]:
    """Split a merged answer into each operation's own."""
    parts, start = [], 0
    for op in ops:
        end = start + len(op.items)
        parts.append(answers[start:end])
        start = end
    return parts


def _joined(parts: Sequence[bytes]) -> str:
    return (b"[" + b",".join(parts) + b"]").decode()
