"""A SQLite store on a file, with a table of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.storage.sqlite import SqliteStore
from tests.unit.sqlite_kit import prepare


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = prepare(SqliteStore(path))
    yield store
    store.close()
