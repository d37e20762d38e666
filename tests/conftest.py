"""Databases for every test that asks for one, in memory where the machine has a file system for that."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres_server import Databases, running_server

_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30
"""Several times what the tests take. Containers often have 64 MB there."""


def pytest_configure() -> None:
    """Put temporary files into memory: a disk's latency is most of the time of a test that writes."""
    if "TMPDIR" not in os.environ and _serves(_MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
    # A script's background jobs start with these ignored, and tests send them to themselves and to their children.
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def _serves(folder: Path) -> bool:
    return (
        os.access(folder, os.W_OK)
        and shutil.disk_usage(folder).free >= _ROOM
        and not os.statvfs(folder).f_flag & os.ST_NOEXEC
    )


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file that is only copied."""
    from holdfast.storage.sqlite import SqliteStore

    path = tmp_path_factory.mktemp("template") / "jobs.db"
    store = SqliteStore(path)
    store.migrate()
    store.close()
    return path


@pytest.fixture
def sqlite_path(sqlite_template: Path, tmp_path: Path) -> str:
    """A fresh migrated file."""
    return str(shutil.copy(sqlite_template, tmp_path))


@pytest.fixture(scope="session")
def postgres_databases() -> Iterator[Databases]:
    """The server of this run. It starts when the first test asks for it."""
    with running_server() as dsn:
        yield Databases(dsn)


@pytest.fixture(scope="session")
def postgres_template(postgres_databases: Databases) -> Iterator[str]:
    """A migrated database that nobody uses but as a template."""
    from holdfast.storage.postgres import PostgresStore

    dsn = postgres_databases.create()
    store = PostgresStore(dsn, notify=False)
    store.migrate()
    store.close()
    yield dsn
    postgres_databases.drop(dsn)


@pytest.fixture
def postgres_dsn(postgres_databases: Databases, postgres_template: str) -> Iterator[str]:
    """A fresh migrated database."""
    dsn = postgres_databases.create(postgres_template)
    yield dsn
    postgres_databases.drop(dsn)


@pytest.fixture
def blank_postgres_dsn(postgres_databases: Databases) -> Iterator[str]:
    """A fresh database without a schema."""
    dsn = postgres_databases.create()
    yield dsn
    postgres_databases.drop(dsn)


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[float, str], None]:
    """Notes what a proof came to, a number and of what; `make proof` reads it from the report of the run."""
    return lambda number, what: record_property("figure", f"{number} {what}")
