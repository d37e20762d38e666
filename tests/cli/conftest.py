"""An app on each store, and its command line."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict

from holdfast import App
from holdfast.cli.main import cli

from .kit import Run


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
