"""Integrations run in this process, on a SQLite file and on Postgres; in `make test` on one of them, in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests.acceptance.conftest import url_of
from tests.turns import take_turns


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    take_turns(items, Path(__file__).parent, "where", ["sqlite", "postgres"])


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest) -> str:
    """A path, or the connection string of a Postgres."""
    return str(request.getfixturevalue("sqlite_path" if request.param == "sqlite" else "postgres_dsn"))


@pytest.fixture
def app(where: str) -> Iterator[holdfast.App]:
    app = holdfast.App(url_of(where) if "=" in where else where)
    yield app
    app.close()
