"""Every acceptance test runs on a SQLite file and on Postgres; in `make test` on one of them, in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

import holdfast
from tests.acceptance import jobs
from tests.acceptance.fleet import LONG_LEASE, Fleet, fleet
from tests.turns import take_turns


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    take_turns(items, Path(__file__).parent, "store_url", ["sqlite", "postgres"])


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_path"))
    return url_of(request.getfixturevalue("postgres_dsn"))


@pytest.fixture
def workers(store_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(store_url, tmp_path, lease=LONG_LEASE) as it:
        yield it


@pytest.fixture
def app(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.App]:
    """The tasks of the workers, as their producer sees them."""
    monkeypatch.setenv("HOLDFAST_STORE", store_url)
    producer = producer_for(store_url)
    yield producer
    producer.close()


def producer_for(store_url: str) -> holdfast.App:
    producer = holdfast.App(store_url)
    for name, task in jobs.app.tasks.items():
        assert task.fn is not None
        producer._register(task.fn, name, task.task_options)
    return producer


def url_of(dsn: str) -> str:
    parts = conninfo_to_dict(dsn)
    user = f"{parts['user']}@" if parts.get("user") else ""
    return f"postgresql://{user}/{parts['dbname']}?host={parts.get('host', '')}&port={parts.get('port', 5432)}"
