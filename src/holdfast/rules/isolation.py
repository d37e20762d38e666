"""Finds the rows that made a destination refuse a batch for good: the rows are sent one by one.

A row is given up only once a sibling has succeeded, which proves that the fault lies in the row and not in the way it
was sent: after an API has changed, every row is refused, and none may be thrown away for that.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar

from .failure import Failure, FailureClass

R = TypeVar("R")

Fates: TypeAlias = "list[tuple[R, Failure | None]]"
"""Each row with what became of it; None is success."""


def isolate(
    rows: Sequence[R], refusal: Failure, known: list[tuple[R, Failure | None]] | None = None
) -> Generator[R, Failure | None, list[tuple[R, Failure | None]]]:
    """Asks for one row after the other to be sent alone, and is told how that went; the fate of each row.

    `refusal` is how the whole batch was refused. `known` fills up with the fates that nothing can change any more, for
    whoever has to stop half-way.
    """
    if len(rows) == 1:
        return [(rows[0], refusal)]
    fates = [] if known is None else known
    held: list[tuple[R, Failure]] = []
    proven = False
    for n, row in enumerate(rows):
        failure = yield row
        if failure is None:
            proven = True
            fates.append((row, None))
        elif failure.kind is not FailureClass.PERMANENT:
            # Shared by all: nobody is asked any more, and it holds for every row still in hand.
            return [*fates, *((held_row, failure) for held_row, _ in held), *((left, failure) for left in rows[n:])]
        elif proven:
            fates.append((row, failure))
        else:
            held.append((row, failure))
        if proven and held:
            fates.extend(held)
            held = []
    return [*fates, *((row, _as_transient(failure)) for row, failure in held)]


def _as_transient(failure: Failure) -> Failure:
    return Failure(FailureClass.TRANSIENT, failure.error)
