"""Which suite caught which mutant, for the end of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar


class Table:
    """Rows of one run."""

    Note = Callable[[str, object], None]
    rows: ClassVar[list[tuple[str, str, float]]] = []

    @classmethod
    def add(cls, mutant: str, caught_by: str, seconds: float) -> None:
        cls.rows.append((mutant, caught_by, seconds))

    @classmethod
    def lines(cls) -> list[str]:
        """Mutant · caught by · seconds."""
        width = max((len(mutant) for mutant, _, _ in cls.rows), default=0)
        return [f"{mutant:{width}} · {caught_by} · {seconds:.1f} s" for mutant, caught_by, seconds in cls.rows]
