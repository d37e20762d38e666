"""Stores for tests that drive operations by hand. A server starts only where a test asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import Ground
from tests.postgres_server import Databases


@pytest.fixture
def stores(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Ground]:
    made: list[str] = []

    def make_postgres() -> str:
        databases: Databases = request.getfixturevalue("postgres_databases")
        made.append(databases.create(request.getfixturevalue("postgres_template")))
        return made[-1]

    ground = Ground(tmp_path, make_postgres)
    yield ground
    ground.close()
    for database in made:
        request.getfixturevalue("postgres_databases").drop(database)
