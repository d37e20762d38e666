"""Invalid versions and affinities."""

from __future__ import annotations

from collections.abc import Sequence

from .root import InvalidInput


class InvalidVersion(InvalidInput):
    """A version or a version range that cannot be parsed, or a range that contains no version."""

    code = "invalid_version"


class NotInInventory(InvalidInput):
    """The job's affinity is not in the inventory of its task."""

    code = "not_in_inventory"

    def __init__(self, inventory: str, name: str, close: Sequence[str]) -> None:
        self.inventory = inventory
        self.name = name
        self.close = tuple(close)
        advice = f"did you mean {' or '.join(map(repr, close))}?" if close else "see what it has with .names()"
        super().__init__(f"inventory {inventory!r} has no {name!r}; {advice}")
