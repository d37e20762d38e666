"""A SQLite store on a file, with a table of the tests' own; and examples that may take their time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from holdfast.storage.sqlite import SqliteStore
from tests.unit.sqlite_kit import prepare

# A machine that stands still for a fifth of a second must not fail the example that it was at.
settings.register_profile("busy", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = prepare(SqliteStore(path))
    yield store
    store.close()
