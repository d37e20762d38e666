"""The dashboard: one module for each page, with a group of its addresses."""

from __future__ import annotations

from typing import Final

from ..wire.operation import Group
from .login import group as login
from .overview import group as overview

PAGES: Final[tuple[Group, ...]] = (login, overview)
