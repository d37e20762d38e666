"""Shops for the tests of the worker, on every kind of store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from holdfast.clock import ManualClock

from .worker_kit import Shop


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a fresh store is."""
    return str(tmp_path / "jobs.db") if request.param == "file" else _url(request.getfixturevalue("postgres_dsn"))


def _url(dsn: str) -> str:
    given = conninfo_to_dict(dsn)
    return f"postgresql:///{given.pop('dbname')}?{urlencode(given)}"


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
