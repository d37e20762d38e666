"""An app on each store, and its command line; in `make test` on one of them, in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict

from holdfast import App
from holdfast.cli.main import cli
from tests.turns import take_turns

from .kit import Run


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    take_turns(items, Path(__file__).parent, "url", ["file", "postgres"])


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "file":
        return str(request.getfixturevalue("sqlite_path"))
    given = conninfo_to_dict(request.getfixturevalue("postgres_dsn"))
    return f"postgresql:///{given.pop('dbname')}?{urlencode(given)}"


@pytest.fixture
def app(url: str) -> Iterator[App]:
    app = App(url)
    app.declare("mail", queue="mail")
    app.migrate()
    yield app
    app.close()


@pytest.fixture
def run(app: App, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("HOLDFAST_STORE", app.config.store)
    monkeypatch.setenv("HOLDFAST_ACTOR", "ada")
    return lambda *words: CliRunner().invoke(cli, [str(word) for word in words])
