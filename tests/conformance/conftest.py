"""The matrix: each database, in each of the ways that a caller may run an operation.

Operations are written once for all ways, so `make test` takes each test in one way per database, in turn.
Stores stay open for the whole run and are emptied before each test; a migrated template is made once per database.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.clock import ManualClock
from holdfast.storage.port import Store
from holdfast.storage.postgres import PostgresStore
from holdfast.storage.sqlite import SqliteStore
from tests.postgres_server import Databases
from tests.turns import take_turns

from .lease_kit import Elsewhere
from .world import ByAwrite, InOwnTransaction, World, by_write

BACKENDS = ("file", "memory", "postgres")


# A database in memory is called in one way only: the others differ by the caller's thread and connection, not by where
# the pages are.
_ON_SQLITE = [("file", "write"), ("file", "awrite"), ("file", "own"), ("memory", "write")]
_ON_POSTGRES = [("postgres", "write"), ("postgres", "awrite"), ("postgres", "own")]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    take_turns(items, folder, "standing", _ON_SQLITE, _ON_POSTGRES)
    take_turns(items, folder, "standing_store", ["file", "memory"])


class Ground:
    """Makes databases and opens worlds on them; closes all at the end."""

    def __init__(self, folder: Path, make_postgres: Callable[[], str]) -> None:
        self._folder = folder
        self._make_postgres = make_postgres
        self._count = 0
        self._stack = ExitStack()
        self._template: Path | None = None

    def open(self, backend: str, way: str = "write") -> World:
        """A world on a database of its own."""
        return self.join(self.place(backend), backend, way)

    def place(self, backend: str) -> str:
        """A new database, migrated."""
        if backend == "memory":
            return ":memory:"
        if backend == "file":
            return self._file()
        return self._make_postgres()

    def join(
        self,
        place: str,
        backend: str,
        way: str = "write",
        clock: ManualClock | None = None,
        until: ExitStack | None = None,
    ) -> World:
        """A world on a database that exists, through a store of its own, which is closed with `until`."""
        clock, stack = clock or ManualClock(), until or self._stack
        if backend == "postgres":
            store: Store = PostgresStore(place, clock=clock)
        else:
            store = SqliteStore(place, clock=clock, durable=False)
        stack.callback(store.close)
        connect = _connector(backend, place, store)
        world = World(store, clock, by_write(store), connect, is_on_disk=backend != "memory")
        if way == "awrite":
            world.way = awriting = ByAwrite(store)
            stack.callback(awriting.close)
        elif way == "own":
            world.way = owning = InOwnTransaction(store, connect)
            stack.callback(owning.close)
        return world

    def close(self) -> None:
        """Close every store; the databases end with their server."""
        self._stack.close()

    def _file(self) -> str:
        if self._template is None:
            self._template = self._folder / "template.db"
            store = SqliteStore(self._template)
            store.migrate()
            store.close()
        self._count += 1
        return str(shutil.copy(self._template, self._folder / f"{self._count}.db"))


def _connector(backend: str, place: str, store: Any) -> Callable[[], Any]:
    if backend == "postgres":
        return lambda: psycopg.connect(place)
    if backend == "file":
        return lambda: sqlite3.connect(place, isolation_level=None)
    # Only the store knows the name of its database in memory.
    return lambda: store.connect()


@pytest.fixture(scope="session")
def ground(
    tmp_path_factory: pytest.TempPathFactory, postgres_databases: Databases, postgres_template: str
) -> Iterator[Ground]:
    ground = Ground(tmp_path_factory.mktemp("conformance"), lambda: postgres_databases.create(postgres_template))
    yield ground
    ground.close()


@pytest.fixture(scope="session", params=[*_ON_SQLITE, *_ON_POSTGRES], ids="-".join)
def standing(request: pytest.FixtureRequest, ground: Ground) -> World:
    return ground.open(*request.param)


@pytest.fixture
def world(standing: World) -> World:
    """An empty store, in every combination of the matrix."""
    standing.wipe()
    return standing


@pytest.fixture(scope="session", params=BACKENDS)
def standing_store(request: pytest.FixtureRequest, ground: Ground) -> World:
    return ground.open(request.param)


@pytest.fixture
def each_store(standing_store: World) -> World:
    """An empty store of each kind, for what does not depend on the way of calling."""
    standing_store.wipe()
    return standing_store


@pytest.fixture(params=["file", "postgres"])
def two_worlds(
    request: pytest.FixtureRequest, ground: Ground, postgres_databases: Databases
) -> Iterator[tuple[World, World]]:
    """Two processes' stores on one new database, with one clock."""
    place = ground.place(request.param)
    with ExitStack() as stack:
        if request.param == "postgres":
            stack.callback(postgres_databases.drop, place)
        first = ground.join(place, request.param, until=stack)
        yield first, ground.join(place, request.param, clock=first.clock, until=stack)


@pytest.fixture
def on_sqlite(ground: Ground) -> Iterator[World]:
    """An empty file, for what its query planner does."""
    with ExitStack() as stack:
        yield ground.join(ground.place("file"), "file", until=stack)


@pytest.fixture(scope="session")
def standing_postgres(ground: Ground) -> World:
    return ground.open("postgres")


@pytest.fixture
def on_postgres(standing_postgres: World) -> World:
    """An empty store on Postgres, for what needs locks that SQLite has not."""
    standing_postgres.wipe()
    return standing_postgres


@pytest.fixture(scope="session")
def lease_runner() -> Iterator[asyncio.Runner]:
    """One event loop for all awaiting calls of workers elsewhere."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(params=["blocking", "awaiting"])
def elsewhere(request: pytest.FixtureRequest, each_store: World, lease_runner: asyncio.Runner) -> Elsewhere:
    """A worker elsewhere, in both colours."""
    return Elsewhere(each_store, lease_runner if request.param == "awaiting" else None)


@pytest.fixture
def here(each_store: World) -> Elsewhere:
    """The same for what does not depend on the colour of the caller."""
    return Elsewhere(each_store)
