"""Capabilities of a store, for programs that ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The features of the store, its version and its limits. Nothing in it is secret."""

    backend: str
    """ "sqlite" or "postgres"."""
    version: str
    """The version of the database."""
    driver: str
    """The name of the driver that connects to it."""
    schema: int
    """The number of the newest migration that has run there; 0 before the first."""
    holdfast: str
    """The version of Holdfast that asks."""
    supports: Mapping[str, bool | str]
    """By name, whether or how a feature is supported; the names do not depend on the store."""
    limits: Mapping[str, int]
    """By name; sizes are bytes."""

    def as_data(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)
