"""Many rows with few statements.

SQLite opens all indexes of a table for each statement, and binding a value takes longer than storing it. A job
takes 16 µs by `executemany`, and 4.5 in one statement for many that binds common values only once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from ..port import Row, Value
from ..statements import Statement, sqlite_for

# Each is another text that SQLite parses and keeps, so there are few; any number is a sum of some.
_LARGEST: Final = 128


def spread(
    statement: Statement, names: tuple[str, ...], rows: Sequence[Row], common: dict[str, Value]
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Return texts and parameters that together run `statement` for each row of values in the order of `names`."""
    columns = list(zip(*rows, strict=True))
    own = [at for at, column in enumerate(columns) if column.count(column[0]) < len(rows)] or [0]
    shared = [at for at in range(len(columns)) if at not in own]
    named = ((*(names[at] for at in shared), *common), tuple(names[at] for at in own))
    same = [*(columns[at][0] for at in shared), *common.values()]
    differing = list(zip(*(columns[at] for at in own), strict=True))
    for start, count in _parts(len(rows)):
        values = chain.from_iterable(differing[start : start + count])
        yield sqlite_for(statement, count, *named), [*same, *values]


def _parts(count: int) -> Iterator[tuple[int, int]]:
    """Return the start and size of each part: powers of two, the largest first."""
    start, size = 0, _LARGEST
    while start < count:
        while size > count - start:
            size //= 2
        yield start, size
        start += size
