"""Both stores for a module of tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from tests.postgres_server import Databases

from .pair import Pair, paired


def furnish(app: holdfast.App) -> None:
    """A few tasks that take anything."""

    @app.task(max_attempts=1)
    async def echo(value: Any) -> Any:
        return value

    @app.task(max_attempts=1)
    async def count(n: int) -> int:
        return n


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, postgres_databases: Databases, postgres_template: str
) -> Iterator[Pair]:
    """The same app on SQLite and on Postgres; for all tests of a module."""
    dsn = postgres_databases.create(postgres_template)
    with paired(tmp_path_factory.mktemp("fuzz"), dsn, furnish) as apps:
        yield apps
    postgres_databases.drop(dsn)
