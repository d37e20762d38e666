"""Where a job may not go."""

from __future__ import annotations

from collections.abc import Sequence

from .root import InvalidInput


class InvalidVersion(InvalidInput):
    """A version or a range of versions that cannot be read, or that no version is in."""

    code = "invalid_version"


class NotInInventory(InvalidInput):
    """The inventory of the task does not have what the job asks for."""

    code = "not_in_inventory"

    def __init__(self, inventory: str, name: str, close: Sequence[str]) -> None:
        self.inventory = inventory
        self.name = name
        self.close = tuple(close)
        advice = f"did you mean {' or '.join(map(repr, close))}?" if close else "see what it has with .names()"
        super().__init__(f"inventory {inventory!r} has no {name!r}; {advice}")
