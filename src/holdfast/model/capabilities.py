"""What a store can do, as a program may ask it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the store supports, which version it is, and where its limits are. Nothing in it is secret."""

    backend: str
    """ "sqlite" or "postgres"."""
    version: str
    """Of the database."""
    driver: str
    """What speaks to it."""
    schema: int
    """The number of the newest migration that has run there; 0 before the first."""
    holdfast: str
    """The version of Holdfast that asks."""
    supports: Mapping[str, bool | str]
    """By name, whether or how; the names do not depend on the store."""
    limits: Mapping[str, int]
    """By name; sizes are bytes."""

    def as_data(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)
