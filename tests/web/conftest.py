"""A site on each store; in `make test` on one of them, in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests.postgres_server import url_of
from tests.turns import take_turns

from .web_kit import Site


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    take_turns(items, Path(__file__).parent, "store_url", ["sqlite", "postgres"])


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A migrated store of each kind."""
    if request.param == "postgres":
        return url_of(request.getfixturevalue("postgres_dsn"))
    return str(request.getfixturevalue("sqlite_path"))


@pytest.fixture
def app(store_url: str) -> Iterator[holdfast.App]:
    """An app with a few tasks."""
    app = holdfast.App(store_url, durable=False)

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task(queue="mail", max_attempts=1)
    async def broken(text: str) -> None:
        raise ValueError(text)

    yield app
    app.close()


@pytest.fixture
def site(app: holdfast.App) -> Iterator[Site]:
    """Its site, as the local administrator sees it; `site.as_role("viewer")` is another caller."""
    with asyncio.Runner() as runner:
        site = Site(app, runner, auth="off")
        yield site
        site.close()
