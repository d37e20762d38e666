"""The store of a project's tests: every operation runs on Django's own connection to the test database.

So what a test enqueues is part of the test's transaction, is seen by it, and is rolled back with it. The store has no
connection of its own that would keep a test database from being dropped.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from asgiref.sync import sync_to_async

from ...clock import SYSTEM_CLOCK, Clock
from ...errors import ConfigError, SchemaMismatch
from ...storage import migrate
from ...storage.blobs import TableBlobs
from ...storage.foreign.kinds import Kind, find_kind
from ...storage.listeners import Listeners
from ...storage.outage import Outage
from ...storage.port import ListOp, Op, Value
from ...storage.sqlite.borrowed import BorrowedConnection
from ...storage.sqlite.location import locate
from ...storage.timing import Timings
from . import conf, schema
from .joining import open_transaction, runs_loop
from .untyped import atomic, connections

if TYPE_CHECKING:
    from ...storage.postgres.place import BorrowedPlaces

T = TypeVar("T")
Item = TypeVar("Item")

_at_start: Final[dict[str, object]] = {}
"""The names of the project's databases before a test runner replaced them."""
_MOST_PASSES: Final = 5


def is_testing() -> bool:
    """Return whether a test runner has set up Django's test environment in this process."""
    utils = sys.modules.get("django.test.utils")
    return utils is not None and hasattr(utils._TestState, "saved_data")


def note_databases() -> None:
    """Remember the project's real databases, which no test may reach."""
    for alias in connections:
        _at_start.setdefault(alias, connections.settings[alias]["NAME"])


class TestStore:
    """A store on the connections that Django keeps for the calling thread."""

    __test__ = False  # pytest would collect it by its name
    in_memory = True
    writes_waiting = 0

    def __init__(self, alias: str, clock: Clock | None) -> None:
        self._alias = alias
        self._clock = clock
        self.wakeups: Final = Listeners()
        self.blobs: Final = TableBlobs()
        self.outage: Final = Outage()
        self.timings: Final = Timings()
        self._sqlite = BorrowedConnection(locate(":memory:"), durable=False)
        self._checked: object = None

    @property
    def backend(self) -> str:
        return schema.dialect_of(connections[self._alias])

    def pool_peak(self) -> None:
        """Return None: there is no pool."""

    def ambient(self) -> None:
        """Refuse a write that the project's own store would refuse; all others are in the test's transaction."""
        if not runs_loop():
            open_transaction(self._alias, _is_in_projects_block)

    def write(self, op: Op[T]) -> T:
        connection = self._connection()
        if connection.in_atomic_block:
            # It has a savepoint of its own, and a failure must not end the test's transaction.
            connection.validate_no_broken_transaction()
            answer, topics = self._run(connection, op)
        else:
            with atomic(using=self._alias):
                answer, topics = self._run(connection, op)
        self.wakeups.notify(topics)
        return answer

    async def awrite(self, op: Op[T]) -> T:
        # On the thread of sync code, where an async test has its transaction.
        return await sync_to_async(self.write)(op)

    def write_list(self, op: ListOp[Item, T]) -> list[T]:
        return self.write(Op(lambda tx: op.run(tx, op.items), name=op.name))

    async def awrite_list(self, op: ListOp[Item, T]) -> list[T]:
        return await sync_to_async(self.write_list)(op)

    def read(self, op: Op[T]) -> T:
        return self.write(op)

    async def aread(self, op: Op[T]) -> T:
        return await sync_to_async(self.write)(op)

    async def aside(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        """Return what a blocking call returns, on the thread that has the test's transaction."""
        found: T = await sync_to_async(call)(*args, **named)
        return found

    def within(self, connection: object, op: Op[T]) -> T:
        if find_kind(connection) is not Kind.DJANGO or getattr(connection, "alias", None) != self._alias:
            raise ConfigError(f"in a test, connection= takes Django's connection {self._alias!r} only; leave it out")
        return self.write(op)

    async def awithin(self, connection: object, op: Op[T]) -> T:
        return await sync_to_async(self.within)(connection, op)

    def migrate(self) -> list[str]:
        raise ConfigError("Django manages this schema; run: manage.py migrate holdfast")

    def drop(self) -> None:
        raise ConfigError("Django manages this schema; run: manage.py migrate holdfast zero")

    def describe(self) -> dict[str, Value]:
        return {"schema_version": max(schema.versions(self._connection()), default=0)}

    def close(self) -> None:
        """Leave the connections to Django."""
        self._checked = None

    def _connection(self) -> Any:
        connection = connections[self._alias]
        if connection.settings_dict["NAME"] == _at_start.get(self._alias):
            raise ConfigError(
                f"a test uses the store before there is a test database for {self._alias!r}, and would reach the"
                " project's own; use it inside a test, not while modules are imported"
            )
        # SimpleTestCase and pytest-django refuse a cursor where a test may not use the database.
        connection.cursor().close()
        if connection.connection is not self._checked:
            self._check_schema(connection)
            self._checked = connection.connection
        return connection

    def _check_schema(self, connection: Any) -> None:
        if migrate.pending(schema.versions(connection), schema.dialect_of(connection)):
            raise SchemaMismatch(
                "the test database lacks Holdfast's current tables; if it was kept by --keepdb or --reuse-db, run the"
                " tests once with its migrations",
                backend=self.backend,
            )

    def _run(self, connection: Any, op: Op[T]) -> tuple[T, set[str]]:
        driver = connection.connection
        if isinstance(driver, sqlite3.Connection):
            return self._sqlite.run(driver, op, (self._clock or SYSTEM_CLOCK).now(), lambda _: None)
        from ...storage.foreign.on_psycopg import run_on_psycopg

        return run_on_psycopg(driver, op, self._clock, cast("BorrowedPlaces", _Anywhere()), notify=False)


def _is_in_projects_block(connection: Any) -> bool:
    return any(not block._from_testcase for block in connection.atomic_blocks)


class _Anywhere:
    """Accepts a connection without asking a store where it is: there is no other."""

    def is_checked(self, driver: object) -> bool:
        return True


def reset_test_database(using: str, **_: Any) -> None:
    """After `migrate` and `flush` in a test run: create tables where migrations are off, and remove left-over jobs.

    Django flushes the tables of models after each TransactionTestCase; Holdfast's are not among them.
    """
    project = conf.read()
    if not is_testing() or using != project.database:
        return
    connection = connections[using]
    latest = migrate.migrations(schema.dialect_of(connection))[-1].version
    if not schema.versions(connection):
        with connection.schema_editor() as editor:
            schema.apply(editor, project.schema, 1, latest)
    elif connection.settings_dict["NAME"] != _at_start.get(using):
        with atomic(using=using):
            _delete_rows(connection)


def _delete_rows(connection: Any) -> None:
    dialect = schema.dialect_of(connection)
    tables = sorted(name for kind, name in migrate.objects(dialect) if kind == "table")
    tables.remove("holdfast_migration")
    # The names are those of our own files.
    with connection.cursor() as cursor:
        if dialect == "sqlite":
            cursor.execute("pragma defer_foreign_keys = on")
        # A trigger may write to a table that was empty.
        for _ in range(_MOST_PASSES):
            cursor.execute(f"select {', '.join(f'exists (select 1 from {table})' for table in tables)}")  # noqa: S608
            filled = [table for table, has_rows in zip(tables, cursor.fetchone(), strict=True) if has_rows]
            if filled and dialect == "postgres":
                cursor.execute(f"truncate {', '.join(filled)} cascade")
            for table in filled if dialect == "sqlite" else ():
                cursor.execute(f"delete from {table}")  # noqa: S608
            if not filled:
                return
