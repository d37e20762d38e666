"""The first use of a SQLite store inside the caller's own transaction: it works there, or says at once what to do."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.config import load
from holdfast.errors import ConfigError, SchemaMismatch
from holdfast.runtime.database import Database
from holdfast.storage import migrate
from holdfast.storage.sqlite import SqliteStore, schema
from tests.patience import SOON
from tests.storage import kit, lenders
from tests.storage.lenders import Lender
from tests.storage.test_foreign import name_of

# One of them reads a table of the tests that is not there.
_BLOCKING = [lender for lender in lenders.BLOCKING_SQLITE if lender is not lenders.through_engine_begin]
blocking = pytest.mark.parametrize("lender", _BLOCKING, ids=name_of)
awaiting = pytest.mark.parametrize("lender", lenders.AWAITING_SQLITE, ids=name_of)


@pytest.fixture(params=["new", "one version behind"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A file that Holdfast has never opened, or that an older Holdfast has left."""
    path = str(tmp_path / "shop.db")
    if request.param == "one version behind":
        make_older(path)
    return path


@pytest.fixture
def app(path: str) -> Iterator[holdfast.App]:
    app = holdfast.App(path)
    app.task(name="receipt")(lambda: None)
    yield app
    app.close()


def make_older(path: str) -> None:
    """A file with every migration but the last."""
    last = migrate.migrations("sqlite")[-1]
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    connection.execute(migrate.CREATE_TABLE)
    for migration in migrate.migrations("sqlite")[:-1]:
        for statement in schema.statements(migration.text):
            connection.execute(statement)
        row = (migration.version, migration.name, 0, migration.oldest_writer)
        connection.execute("insert into holdfast_migration values (?, ?, ?, ?)", row)
    assert last.version not in schema.applied(connection)
    connection.close()


@blocking
def test_the_first_use_in_a_transaction_commits_with_it(app: holdfast.App, path: str, lender: Lender) -> None:
    task = app.tasks["receipt"]
    lender(path, lambda connection: task.options(connection=connection).enqueue(), True)
    assert [job.state for job in app.jobs.find()] == ["ready"]
    assert verified(path) == []


@awaiting
def test_the_first_use_in_an_awaited_transaction_commits_with_it(app: holdfast.App, path: str, lender: Lender) -> None:
    task = app.tasks["receipt"]
    lender(path, lambda connection: task.options(connection=connection).aenqueue(), True)
    assert [job.state for job in app.jobs.find()] == ["ready"]
    assert verified(path) == []


@blocking
def test_after_a_rolled_back_first_use_nothing_is_there_and_the_next_works(
    app: holdfast.App, path: str, lender: Lender
) -> None:
    task, before = app.tasks["receipt"], versions(path)
    lender(path, lambda connection: task.options(connection=connection).enqueue(), False)
    assert versions(path) == before
    lender(path, lambda connection: task.options(connection=connection).enqueue(), True)
    assert len(app.jobs.find()) == 1


@awaiting
def test_after_a_rolled_back_awaited_first_use_nothing_is_there(app: holdfast.App, path: str, lender: Lender) -> None:
    task, before = app.tasks["receipt"], versions(path)
    lender(path, lambda connection: task.options(connection=connection).aenqueue(), False)
    assert versions(path) == before
    assert app.jobs.find() == []


def test_a_store_that_was_used_in_a_rolled_back_transaction_migrates_when_it_is_opened(
    app: holdfast.App, path: str
) -> None:
    task = app.tasks["receipt"]
    lenders.through_sqlite3(path, lambda connection: task.options(connection=connection).enqueue(), False)
    task.enqueue()
    assert len(app.jobs.find()) == 1
    assert verified(path) == []


@pytest.mark.parametrize("begin", ["begin", "begin immediate"])
def test_it_works_before_and_after_the_callers_first_write(app: holdfast.App, path: str, begin: str) -> None:
    task = app.tasks["receipt"]
    with lenders.lend_sqlite3(path, isolation_level=None) as connection:
        connection.execute(begin)
        task.options(connection=connection).enqueue()
        connection.execute("create table if not exists cups (name text)")
        connection.execute("insert into cups values ('blue')")
        task.options(connection=connection).enqueue()
        connection.execute("commit")
        connection.execute(begin)
        connection.execute("insert into cups values ('red')")
        task.options(connection=connection).enqueue()
        connection.execute("commit")
    assert len(app.jobs.find()) == 3


def test_an_open_query_of_the_caller_does_not_hinder_or_is_named(app: holdfast.App, path: str) -> None:
    task = app.tasks["receipt"]
    with lenders.lend_sqlite3(path, isolation_level=None) as connection:
        connection.execute("create table numbers (n integer)")
        connection.executemany("insert into numbers values (?)", [(n,) for n in range(500)])
        connection.execute("begin")
        reading = connection.execute("select n from numbers")
        reading.fetchone()
        try:
            task.options(connection=connection).enqueue()
        except SchemaMismatch as error:
            assert "app.migrate()" in str(error)
        reading.close()
        task.options(connection=connection).enqueue()
        connection.execute("commit")
    assert app.jobs.find()


def test_a_rolled_back_schema_is_not_remembered_when_others_have_made_tables_since(tmp_path: Path) -> None:
    """The counter by which SQLite tells of a changed schema may come back to the value of a rolled back one."""
    path = str(tmp_path / "shop.db")
    app = holdfast.App(path)
    task = app.task(name="receipt")(lambda: None)
    with lenders.lend_sqlite3(path, isolation_level=None) as connection:
        connection.execute("begin immediate")
        task.options(connection=connection).enqueue()
        (reached,) = connection.execute("pragma schema_version").fetchone()
        connection.execute("rollback")
        for n in range(reached):
            connection.execute(f"create table other_{n} (x)")
        assert connection.execute("pragma schema_version").fetchone() == (reached,)
        connection.execute("begin immediate")
        task.options(connection=connection).enqueue()
        connection.execute("commit")
    assert len(app.jobs.find()) == 1
    app.close()


def test_what_an_open_store_sees_in_a_callers_transaction_is_not_remembered(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    store = SqliteStore(path)
    store.migrate()
    with lenders.lend_sqlite3(path, isolation_level=None) as connection:
        connection.execute(kit.TABLE)
        connection.execute("begin immediate")
        connection.execute("update holdfast_migration set version = 9999, oldest_writer = 9999 where version = 19")
        connection.execute("create table mine (x)")
        with pytest.raises(SchemaMismatch):
            store.within(connection, kit.insert("a"))
        connection.execute("rollback")
        store.write(kit.insert("b"))
        connection.execute("begin immediate")
        store.within(connection, kit.insert("c"))
        connection.execute("commit")
    assert store.read(kit.names()) == ["b", "c"]
    store.close()


def test_a_thread_that_opens_the_store_meanwhile_waits_for_the_commit(app: holdfast.App, path: str) -> None:
    task, found = app.tasks["receipt"], []
    with lenders.lend_sqlite3(path, isolation_level=None) as connection:
        connection.execute("begin immediate")
        task.options(connection=connection).enqueue()
        opening = threading.Thread(target=lambda: found.append(task.enqueue()))
        opening.start()
        opening.join(0.3)
        task.options(connection=connection).enqueue()
        connection.execute("commit")
        opening.join(SOON)
    assert len(found) == 1
    assert len(app.jobs.find()) == 3


def test_a_store_that_must_not_migrate_says_at_once_what_to_run(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    store = SqliteStore(path, auto_migrate=False)
    with lenders.lend_sqlite3(path, isolation_level=None) as connection:
        connection.execute("begin immediate")
        with pytest.raises(SchemaMismatch, match="holdfast db migrate"):
            store.within(connection, kit.insert("a"))
        connection.execute("rollback")
    store.close()


def test_a_connection_to_another_file_is_refused_and_not_given_our_tables(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "shop.db")
    with lenders.lend_sqlite3(str(tmp_path / "other.db"), isolation_level=None) as connection:
        connection.execute("begin immediate")
        with pytest.raises(ConfigError, match=r"other\.db"):
            store.within(connection, kit.insert("a"))
        assert connection.execute("select name from sqlite_master").fetchall() == []
        connection.execute("rollback")
    store.close()


def versions(path: str) -> list[int]:
    with lenders.lend_sqlite3(path) as connection:
        return schema.applied(connection)


def verified(path: str) -> list[Any]:
    with Database(load({"store": path})) as database:
        return [finding for finding in database.verify() if finding.broken_by]
