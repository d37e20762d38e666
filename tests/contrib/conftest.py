"""Integrations run in this process, on a SQLite file and on Postgres; in `make test` on one of them, in turn."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests.acceptance.conftest import url_of
from tests.turns import take_turns

from .agent_kit import Stores


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


@pytest.fixture
def stores(request: pytest.FixtureRequest, app: holdfast.App, where: str) -> Iterator[Stores]:
    """An app whose jobs can be killed, on SQLite in memory or on Postgres."""
    logging.getLogger("holdfast.worker").setLevel(logging.CRITICAL)
    if "=" not in where:
        yield Stores(app, lambda: ":memory:")
    else:
        databases, template = (request.getfixturevalue(name) for name in ("postgres_databases", "postgres_template"))
        made: list[str] = []

        def fresh() -> str:
            if made:
                databases.drop(made.pop())
            made.append(databases.create(template))
            return url_of(made[-1])

        yield Stores(app, fresh)
        databases.drop(made.pop())
    logging.getLogger("holdfast.worker").setLevel(logging.NOTSET)
