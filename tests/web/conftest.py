"""A site on each store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import holdfast
from tests.postgres_server import url_of

from .web_kit import Site


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
