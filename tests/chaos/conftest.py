"""Stores for tests that drive operations by hand. A server starts only where a test asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import Ground
from tests.postgres_server import Databases


@pytest.fixture
def stores(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Ground]:
    def make_postgres() -> str:
        databases: Databases = request.getfixturevalue("postgres_databases")
        return databases.create(request.getfixturevalue("postgres_template"))

    ground = Ground(tmp_path, make_postgres)
    yield ground
    for database in ground.close():
        request.getfixturevalue("postgres_databases").drop(database)
