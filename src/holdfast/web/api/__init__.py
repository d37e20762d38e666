"""The API: one module for each thing, each with a group of operations."""

from __future__ import annotations

from typing import Final

from ..wire.operation import Group
from .jobs import group as jobs

GROUPS: Final[tuple[Group, ...]] = (jobs,)
"""In the order of the document."""
