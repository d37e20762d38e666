"""Which cases of a parametrised fixture `make test` takes: one of those that prove much the same, in turn."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


def take_turns(items: Sequence[pytest.Item], folder: Path, fixture: str, *alike: Sequence[Any]) -> None:
    """Mark as `thorough` all but one of each group of cases, another one for each test in that folder."""
    cases = [
        (item, item.originalname, item.callspec.params[fixture])
        for item in items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and fixture in item.callspec.params
        if item.path.is_relative_to(folder)
    ]
    there = {(item.path, name, case) for item, name, case in cases}
    for item, name, case in cases:
        for group in alike:
            chosen = group[zlib.crc32(name.encode()) % len(group)]
            # A test that has some of the cases only keeps them.
            if case in group and case != chosen and (item.path, name, chosen) in there:
                item.add_marker("thorough")
