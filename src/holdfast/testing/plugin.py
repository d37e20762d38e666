"""Fixtures for pytest, which finds them where Holdfast is installed. Nothing is imported or made before one is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..app import App
    from ..clock import ManualClock


@pytest.fixture
def holdfast_clock() -> ManualClock:
    """A clock that stands still until the test advances it."""
    from ..clock import ManualClock

    return ManualClock()


@pytest.fixture
def holdfast_store(tmp_path: Path) -> str:
    """The path of a store for this test: `App(holdfast_store)`, or `isolated(app, store=holdfast_store)`."""
    return str(tmp_path / "holdfast.db")


@pytest.fixture
def holdfast_isolated(holdfast_clock: ManualClock) -> Iterator[Callable[[App], App]]:
    """`holdfast_isolated(app)` gives the app a store in memory, on `holdfast_clock`, until the test ends."""
    from . import isolated

    with ExitStack() as stack:
        yield lambda app: stack.enter_context(isolated(app, clock=holdfast_clock))
