"""Which cases of a parametrised fixture `make test` takes: one of those that prove much the same, in turn."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


def take_turns(items: Sequence[pytest.Item], folder: Path, fixture: str, *alike: Sequence[Any]) -> None:
    """Mark as `thorough` all but one of each group of cases, another one for each test in that folder."""
    for item in items:
        if (
            not isinstance(item, pytest.Function)
            or not item.path.is_relative_to(folder)
            or not hasattr(item, "callspec")
        ):
            continue
        case = item.callspec.params.get(fixture)
        turn = zlib.crc32(item.originalname.encode())
        if any(case in group and case != group[turn % len(group)] for group in alike):
            item.add_marker("thorough")
