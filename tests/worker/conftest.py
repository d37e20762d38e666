"""Shops for the tests of the worker, on every kind of store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.clock import ManualClock
from tests.postgres_server import url_of

from .worker_kit import Shop


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest) -> str:
    """Where a fresh store is."""
    if request.param == "file":
        return str(request.getfixturevalue("sqlite_path"))
    return url_of(request.getfixturevalue("postgres_dsn"))


@pytest.fixture
def shop(place: str) -> Iterator[Shop]:
    """A shop whose time the test owns."""
    shop = Shop(place, ManualClock())
    yield shop
    shop.app.close()


@pytest.fixture
def real_shop(place: str) -> Iterator[Shop]:
    """A shop where real time passes."""
    shop = Shop(place, None)
    yield shop
    shop.app.close()


@pytest.fixture
def small_shop() -> Iterator[Shop]:
    """A shop in memory, for what does not depend on the store."""
    shop = Shop(":memory:", ManualClock())
    yield shop
    shop.app.close()


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """Where a job in a child process says that it has begun."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path
