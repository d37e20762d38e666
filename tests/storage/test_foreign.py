"""The caller's own transaction, on every kind of connection: its commit keeps, its rollback undoes and wakes nobody."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import aiosqlite
import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.pool import NullPool

from holdfast.clock import ManualClock
from holdfast.errors import ConfigError, NotInTransaction, StorageError, StorageUnavailable
from holdfast.storage.port import Op, Tx
from holdfast.storage.postgres import PostgresStore
from holdfast.storage.postgres.place import BorrowedPlaces, Place
from holdfast.storage.sqlite import SqliteStore
from holdfast.storage.statements import Statement, sql
from tests.patience import SOON
from tests.storage import kit, lenders
from tests.storage.lenders import Lender

BRIEFLY = 0.2


@pytest.fixture
def sqlite_path(tmp_path: Path) -> str:
    path = str(tmp_path / "jobs.db")
    store = SqliteStore(path)
    store.migrate()
    store.close()
    with lenders.lend_sqlite3(path) as connection:
        connection.execute(kit.TABLE)
    return path


@pytest.fixture
def sqlite_store(sqlite_path: str) -> Iterator[SqliteStore]:
    store = SqliteStore(sqlite_path)
    yield store
    store.close()


def name_of(lender: Any) -> str:
    cells = [getattr(value := cell.cell_contents, "__module__", str(value)) for cell in lender.__closure__ or ()]
    return "-".join([lender.__qualname__.split(".")[0], *cells])


blocking_sqlite = pytest.mark.parametrize("lender", lenders.BLOCKING_SQLITE, ids=name_of)
blocking_postgres = pytest.mark.parametrize("lender", lenders.BLOCKING_POSTGRES, ids=name_of)
awaiting_sqlite = pytest.mark.parametrize("lender", lenders.AWAITING_SQLITE, ids=name_of)
awaiting_postgres = pytest.mark.parametrize("lender", lenders.AWAITING_POSTGRES, ids=name_of)


@blocking_sqlite
def test_sqlite_keeps_what_the_caller_commits(sqlite_store: SqliteStore, sqlite_path: str, lender: Lender) -> None:
    lender(sqlite_path, lambda connection: sqlite_store.within(connection, kit.insert("a")), True)
    assert sqlite_store.read(kit.names()) == ["a"]


@blocking_sqlite
def test_sqlite_forgets_what_the_caller_rolls_back(sqlite_store: SqliteStore, sqlite_path: str, lender: Lender) -> None:
    lender(sqlite_path, lambda connection: sqlite_store.within(connection, kit.insert("a")), False)
    assert sqlite_store.read(kit.names()) == []


@awaiting_sqlite
@pytest.mark.parametrize("commit", [True, False])
def test_sqlite_follows_the_awaiting_caller(
    sqlite_store: SqliteStore, sqlite_path: str, lender: Lender, commit: bool
) -> None:
    lender(sqlite_path, lambda connection: sqlite_store.awithin(connection, kit.insert("a")), commit)
    assert sqlite_store.read(kit.names()) == (["a"] if commit else [])


@blocking_postgres
def test_postgres_keeps_and_wakes_when_the_caller_commits(store: PostgresStore, noted_dsn: str, lender: Lender) -> None:
    ear = store.wakeups.listen(["queue:a"])
    assert ear.wait(SOON), "LISTEN is up"
    lender(noted_dsn, lambda connection: store.within(connection, kit.insert("a")), True)
    assert ear.wait(SOON)
    assert store.read(kit.names()) == ["a"]


@blocking_postgres
def test_postgres_forgets_and_wakes_nobody_when_the_caller_rolls_back(
    store: PostgresStore, noted_dsn: str, lender: Lender
) -> None:
    ear = store.wakeups.listen(["queue:a"])
    assert ear.wait(SOON), "LISTEN is up"
    lender(noted_dsn, lambda connection: store.within(connection, kit.insert("a")), False)
    assert not ear.wait(BRIEFLY)
    assert store.read(kit.names()) == []


@awaiting_postgres
def test_postgres_keeps_and_wakes_when_the_awaiting_caller_commits(
    store: PostgresStore, noted_dsn: str, lender: Lender
) -> None:
    ear = store.wakeups.listen(["queue:a"])
    assert ear.wait(SOON), "LISTEN is up"
    lender(noted_dsn, lambda connection: store.awithin(connection, kit.insert("a")), True)
    assert ear.wait(SOON)
    assert store.read(kit.names()) == ["a"]


@awaiting_postgres
def test_postgres_forgets_and_wakes_nobody_when_the_awaiting_caller_rolls_back(
    store: PostgresStore, noted_dsn: str, lender: Lender
) -> None:
    ear = store.wakeups.listen(["queue:a"])
    assert ear.wait(SOON), "LISTEN is up"
    lender(noted_dsn, lambda connection: store.awithin(connection, kit.insert("a")), False)
    assert not ear.wait(BRIEFLY)
    assert store.read(kit.names()) == []


@pytest.mark.parametrize("lender", [*lenders.BLOCKING_POSTGRES, *lenders.AWAITING_POSTGRES], ids=name_of)
def test_a_failed_operation_leaves_the_callers_transaction_usable(
    store: PostgresStore, noted_dsn: str, lender: Lender
) -> None:
    def blocking(connection: Any) -> None:
        with pytest.raises(StorageError, match="division by zero"):
            store.within(connection, kit.insert_then_divide_by_zero("lost"))
        store.within(connection, kit.insert("a"))

    async def awaiting(connection: Any) -> None:
        with pytest.raises(StorageError, match="division by zero"):
            await store.awithin(connection, kit.insert_then_divide_by_zero("lost"))
        await store.awithin(connection, kit.insert("a"))

    lender(noted_dsn, blocking if lender in lenders.BLOCKING_POSTGRES else awaiting, True)
    assert store.read(kit.names()) == ["a"]


@pytest.mark.parametrize("lender", lenders.BLOCKING_SQLITE, ids=name_of)
def test_a_failed_operation_leaves_the_callers_sqlite_transaction_usable(
    sqlite_store: SqliteStore, sqlite_path: str, lender: Lender
) -> None:
    def enqueue(connection: Any) -> None:
        with pytest.raises(LookupError):
            sqlite_store.within(connection, kit.insert_then_fail("lost"))
        sqlite_store.within(connection, kit.insert("a"))

    lender(sqlite_path, enqueue, True)
    assert sqlite_store.read(kit.names()) == ["a"]


@pytest.mark.parametrize("lender", [*lenders.BLOCKING_POSTGRES, *lenders.AWAITING_POSTGRES], ids=name_of)
def test_lists_and_a_manual_clock_work_on_every_driver(noted_dsn: str, lender: Lender) -> None:
    clock = ManualClock()
    store = PostgresStore(noted_dsn, clock=clock, notify=False)
    answers: list[object] = []

    async def op(tx: Tx) -> None:
        answers.append(await tx.each(kit.INSERT_EACH, [{"name": "b"}, {"name": "a"}]))
        answers.append(await tx.one(kit.NOW))

    if lender in lenders.BLOCKING_POSTGRES:
        lender(noted_dsn, lambda connection: store.within(connection, Op(op)), True)
    else:
        lender(noted_dsn, lambda connection: store.awithin(connection, Op(op)), True)
    assert answers == [[("b",), ("a",)], (clock.now(),)]
    store.close()


_SHOW = Statement("show", "select 1", "select current_setting('lock_timeout')")
_CHOOSE = Statement("choose", "select 1", "select set_config('lock_timeout', '7s', true)")


async def _limit_twice(tx: Tx) -> object:
    await tx.one(sql.limit_lock_wait)
    await tx.one(sql.limit_lock_wait)
    return await tx.one(_SHOW)


@pytest.mark.parametrize("lender", [*lenders.BLOCKING_POSTGRES, *lenders.AWAITING_POSTGRES], ids=name_of)
def test_the_callers_transaction_waits_for_locks_as_long_as_before(
    store: PostgresStore, noted_dsn: str, lender: Lender
) -> None:
    ops: list[Op[Any]] = [Op(lambda tx: tx.one(_CHOOSE)), Op(_limit_twice), Op(lambda tx: tx.one(_SHOW))]
    answers: list[object] = []

    def blocking(connection: Any) -> None:
        answers.extend([store.within(connection, op) for op in ops])

    async def awaiting(connection: Any) -> None:
        answers.extend([await store.awithin(connection, op) for op in ops])

    lender(noted_dsn, blocking if lender in lenders.BLOCKING_POSTGRES else awaiting, True)
    assert answers == [("7s",), ("2s",), ("7s",)]


def test_an_idle_sqlite3_connection_is_refused(sqlite_store: SqliteStore, sqlite_path: str) -> None:
    with lenders.lend_sqlite3(sqlite_path) as connection, pytest.raises(NotInTransaction):
        sqlite_store.within(connection, kit.insert("a"))
    assert sqlite_store.read(kit.names()) == []


def test_an_idle_aiosqlite_connection_is_refused(sqlite_store: SqliteStore, sqlite_path: str) -> None:
    async def lend() -> None:
        async with aiosqlite.connect(sqlite_path) as connection:
            with pytest.raises(NotInTransaction):
                await sqlite_store.awithin(connection, kit.insert("a"))

    asyncio.run(lend())
    assert sqlite_store.read(kit.names()) == []


def test_an_autocommit_psycopg_connection_is_refused(store: PostgresStore, noted_dsn: str) -> None:
    with psycopg.connect(noted_dsn, autocommit=True) as connection, pytest.raises(NotInTransaction):
        store.within(connection, kit.insert("a"))
    assert store.read(kit.names()) == []


def test_a_lent_connection_that_is_broken_is_told_what_to_do_with_it(store: PostgresStore, noted_dsn: str) -> None:
    with psycopg.connect(noted_dsn) as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("select * from nowhere")
        with pytest.raises(StorageError, match="roll it back, and begin another"):
            store.within(connection, kit.insert("a"))
    with pytest.raises(StorageUnavailable, match="the connection is closed; if it is yours, open another"):
        store.within(connection, kit.insert("a"))


def test_an_autocommit_async_psycopg_connection_is_refused(store: PostgresStore, noted_dsn: str) -> None:
    async def lend() -> None:
        async with await psycopg.AsyncConnection.connect(noted_dsn, autocommit=True) as connection:
            with pytest.raises(NotInTransaction):
                await store.awithin(connection, kit.insert("a"))

    asyncio.run(lend())


def test_an_idle_asyncpg_connection_is_refused(store: PostgresStore, noted_dsn: str) -> None:
    async def lend() -> None:
        async with lenders.asyncpg_connection(noted_dsn) as connection:
            with pytest.raises(NotInTransaction):
                await store.awithin(connection, kit.insert("a"))

    asyncio.run(lend())


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_an_autocommit_engine_is_refused(request: pytest.FixtureRequest, backend: str) -> None:
    where = request.getfixturevalue("sqlite_path" if backend == "sqlite" else "noted_dsn")
    opened = request.getfixturevalue("sqlite_store" if backend == "sqlite" else "store")
    url = lenders.sqlalchemy_url(where)
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection, pytest.raises(NotInTransaction):
        opened.within(connection, kit.insert("a"))
    assert opened.read(kit.names()) == []


@pytest.mark.parametrize("lender", lenders.AWAITING_POSTGRES, ids=name_of)
def test_a_blocking_call_with_an_awaiting_connection_says_what_to_use(
    store: PostgresStore, noted_dsn: str, lender: Lender
) -> None:
    async def enqueue(connection: Any) -> None:
        with pytest.raises(TypeError, match="aenqueue"):
            store.within(connection, kit.insert("a"))

    lender(noted_dsn, enqueue, False)


@pytest.mark.parametrize("lender", lenders.BLOCKING_POSTGRES, ids=name_of)
def test_an_awaiting_call_takes_a_blocking_connection_too(store: PostgresStore, noted_dsn: str, lender: Lender) -> None:
    lender(noted_dsn, lambda connection: asyncio.run(store.awithin(connection, kit.insert("a"))), True)
    assert store.read(kit.names()) == ["a"]


def test_a_connection_to_the_other_database_is_refused_by_name(
    store: PostgresStore, sqlite_store: SqliteStore, noted_dsn: str, sqlite_path: str
) -> None:
    def swap_postgres(connection: Any) -> None:
        with pytest.raises(TypeError, match=r"postgres connection .* sqlite store"):
            sqlite_store.within(connection, kit.insert("a"))

    def swap_sqlite(connection: Any) -> None:
        with pytest.raises(TypeError, match=r"sqlite connection .* postgres store"):
            store.within(connection, kit.insert("a"))

    lenders.through_psycopg(noted_dsn, swap_postgres, True)
    lenders.through_sqlite3(sqlite_path, swap_sqlite, True)
    lenders.through_session(sqlite_path, swap_sqlite, True)


@pytest.fixture
def other_dsn(noted_dsn: str) -> Iterator[str]:
    """Another database of the same server, with Holdfast's tables in it."""
    name = f"{conninfo_to_dict(noted_dsn)['dbname']}_other"
    with psycopg.connect(noted_dsn, autocommit=True) as connection:
        connection.execute(f"create database {name}")
        other = make_conninfo(noted_dsn, dbname=name)
        opened = PostgresStore(other)
        opened.migrate()
        opened.close()
        yield other
        connection.execute(f"drop database {name} with (force)")


@blocking_postgres
def test_a_connection_to_another_postgres_database_is_refused_and_both_are_named(
    store: PostgresStore, noted_dsn: str, other_dsn: str, lender: Lender
) -> None:
    def lend(connection: Any) -> None:
        with pytest.raises(ConfigError, match="writes to database '.*_other', schema 'public', and the app's store is"):
            store.within(connection, kit.insert("a"))

    with psycopg.connect(other_dsn) as connection:
        connection.execute(kit.TABLE)
    lender(other_dsn, lend, True)
    assert store.read(kit.names()) == []


@awaiting_postgres
def test_an_awaiting_connection_to_another_postgres_database_is_refused(
    store: PostgresStore, noted_dsn: str, other_dsn: str, lender: Lender
) -> None:
    async def lend(connection: Any) -> None:
        with pytest.raises(ConfigError, match="writes to database '.*_other'"):
            await store.awithin(connection, kit.insert("a"))

    with psycopg.connect(other_dsn) as connection:
        connection.execute(kit.TABLE)
    lender(other_dsn, lend, True)


def test_a_connection_to_another_schema_or_to_a_database_without_tables_is_refused(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, schema="jobs45")
    store.migrate()
    with psycopg.connect(noted_dsn) as connection:
        with pytest.raises(ConfigError, match=r"schema 'public', and the app's store is database .* schema 'jobs45'"):
            store.within(connection, kit.insert("a"))
        assert connection.execute("select 1").fetchone() == (1,)
    with psycopg.connect(make_conninfo(noted_dsn, dbname="template1")) as connection:
        with pytest.raises(ConfigError, match="writes to database 'template1'"):
            store.within(connection, kit.insert("a"))
    with psycopg.connect(noted_dsn, options="-c search_path=jobs45,public") as connection:
        store.within(connection, kit.insert("a"))
    store.close()


def test_a_lent_connection_is_asked_once_where_it_writes_and_again_only_where_the_server_was_restarted() -> None:
    class Driver: ...

    asked: list[Place] = []
    own = Place("shop", "public", 1, 7)
    places = BorrowedPlaces(lambda: asked.append(own) or own)  # type: ignore[func-returns-value]
    first, second = Driver(), Driver()
    places.require(first, own)
    assert places.is_checked(first) and not places.is_checked(second)
    assert places.accept(second, own) and len(asked) == 1
    with pytest.raises(ConfigError, match="database 'shop' of another server"):
        places.require(Driver(), own._replace(server_started_at=8))
    restarted = own = own._replace(server_started_at=9)
    places.require(Driver(), restarted)


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_known_connection_costs_no_further_question(store: PostgresStore, noted_dsn: str, pipeline: bool) -> None:
    with psycopg.connect(noted_dsn) as connection:
        with connection.pipeline() if pipeline else nullcontext():
            store.within(connection, kit.insert("a"))
            places = store._host.places
            assert places is not None and places.is_checked(connection)
            store.within(connection, kit.insert("b"))
    assert store.read(kit.names()) == ["a", "b"]


def test_anything_else_is_refused_with_what_may_be_lent(store: PostgresStore) -> None:
    with pytest.raises(TypeError, match=r"builtins\.str.*psycopg\.AsyncConnection"):
        store.within("connection", kit.insert("a"))


def test_a_lent_sqlite3_connection_checkpoints_no_more(sqlite_store: SqliteStore, sqlite_path: str) -> None:
    with lenders.lend_sqlite3(sqlite_path) as connection:
        connection.execute("begin")
        sqlite_store.within(connection, kit.insert("a"))
        connection.commit()
        assert connection.execute("pragma wal_autocheckpoint").fetchone() == (0,)


def test_a_commit_on_a_lent_sqlite3_connection_wakes_this_process(sqlite_store: SqliteStore, sqlite_path: str) -> None:
    ear = sqlite_store.wakeups.listen(["queue:a"])
    lenders.through_sqlite3(sqlite_path, lambda lent: sqlite_store.within(lent, kit.insert("a")), True)
    assert ear.wait(SOON)


def test_a_rollback_on_a_lent_sqlite3_connection_wakes_nobody(sqlite_store: SqliteStore, sqlite_path: str) -> None:
    ear = sqlite_store.wakeups.listen(["queue:a"])
    lenders.through_sqlite3(sqlite_path, lambda lent: sqlite_store.within(lent, kit.insert("a")), False)
    assert not ear.wait(BRIEFLY)


def test_a_subclass_of_a_connection_is_recognised(sqlite_store: SqliteStore, sqlite_path: str) -> None:
    class Mine(sqlite3.Connection):
        pass

    with lenders.lend_sqlite3(sqlite_path, factory=Mine) as connection:
        connection.execute("begin")
        sqlite_store.within(connection, kit.insert("a"))
        connection.commit()
    assert sqlite_store.read(kit.names()) == ["a"]
