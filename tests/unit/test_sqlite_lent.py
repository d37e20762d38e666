"""Operations inside the caller's own transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from holdfast.errors import ConfigError, NotInTransaction, SchemaMismatch, SelfLocked, StorageBusy, StorageError
from holdfast.storage.port import Op
from holdfast.storage.sqlite import SqliteStore, work
from tests.patience import SOON
from tests.unit.sqlite_kit import TEXTS, add, prepare


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteStore]:
    store = prepare(SqliteStore(tmp_path / "jobs.db" if request.param == "file" else ":memory:"))
    yield store
    store.close()


@pytest.fixture
def connection(store: SqliteStore) -> Iterator[sqlite3.Connection]:
    connection = store.connect()
    yield connection
    connection.close()


def test_what_is_committed_with_the_callers_transaction_stays(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    with connection:
        connection.execute("insert into note (text) values ('own')")
        store.within(connection, add("ours"))
        asyncio.run(store.awithin(connection, add("awaited")))
    assert store.read(TEXTS) == ["own", "ours", "awaited"]


def test_what_is_rolled_back_with_the_callers_transaction_is_gone(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    connection.execute("begin")
    store.within(connection, add("ours"))
    connection.rollback()
    assert store.read(TEXTS) == []


def test_a_failing_operation_leaves_the_callers_transaction_open_and_its_own_work_undone(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    with connection:
        connection.execute("insert into note (text) values ('own')")
        with pytest.raises(StorageError, match="UNIQUE"):
            store.within(connection, add("half", "own"))
        assert connection.in_transaction
    assert store.read(TEXTS) == ["own"]


def test_a_connection_without_a_transaction_is_refused(store: SqliteStore, connection: sqlite3.Connection) -> None:
    with pytest.raises(NotInTransaction, match="begin one"):
        store.within(connection, add("x"))


def test_a_connection_of_another_kind_is_refused(store: SqliteStore) -> None:
    with pytest.raises(TypeError, match=r"sqlite3\.Connection"):
        store.within(object(), add("x"))


def test_a_connection_to_another_file_is_refused(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    other = sqlite3.connect(tmp_path / "other.db", isolation_level=None)
    other.execute("begin")
    with pytest.raises(ConfigError, match=r"other\.db"):
        store.within(other, add("x"))
    other.close()
    store.close()


def test_a_schema_that_is_too_old_is_not_written_through_a_lent_connection(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", auto_migrate=False)
    connection = store.connect()
    connection.execute("begin")
    with pytest.raises(SchemaMismatch):
        store.within(connection, add("x"))
    connection.close()
    store.close()


def test_the_callers_factories_are_respected_and_restored(store: SqliteStore, connection: sqlite3.Connection) -> None:
    connection.row_factory, connection.text_factory = sqlite3.Row, bytes
    connection.execute("begin")
    store.within(connection, add("a"))
    assert store.within(connection, TEXTS) == ["a"]
    assert connection.text_factory is bytes
    assert isinstance(connection.execute("select 1").fetchone(), sqlite3.Row)
    connection.commit()


def test_a_plain_connection_of_the_callers_own_may_be_lent_and_no_longer_checkpoints(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    plain = sqlite3.connect(tmp_path / "jobs.db")
    with plain:
        plain.execute("insert into note (text) values ('own')")
        store.within(plain, add("ours"))
    assert plain.execute("pragma wal_autocheckpoint").fetchone() == (0,)
    assert store.read(TEXTS) == ["own", "ours"]
    plain.close()
    store.close()


def test_writing_past_ones_own_open_transaction_is_an_error_that_says_so(
    store: SqliteStore, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody waits for so long for what cannot come.
    monkeypatch.setattr(work, "PATIENCE", 600.0)
    connection.execute("begin immediate")
    with pytest.raises(SelfLocked, match="pass it as connection="):
        store.write(add("x"))
    connection.rollback()
    assert store.write(add("x")) == 1


def test_a_second_transaction_of_ones_own_is_an_error_that_says_so(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    engine = create_engine(f"sqlite:///{tmp_path / 'jobs.db'}")
    began = time.monotonic()
    with Session(engine) as first, Session(engine) as second:
        store.within(first, add("ours"))
        with pytest.raises(SelfLocked, match="another open transaction of yours holds the lock"):
            store.within(second, add("theirs"))
        assert time.monotonic() - began < 3
        first.commit()
        store.within(second, add("later"))
        assert second.connection().exec_driver_sql("pragma busy_timeout").scalar() == 5000
    engine.dispose()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as one, closing(sqlite3.connect(tmp_path / "jobs.db")) as two:
        for connection in (one, two):
            connection.execute("begin")
        store.within(one, add("more"))
        with pytest.raises(SelfLocked, match="pass the same connection to both calls"):
            store.within(two, add("theirs"))
    store.close()


def test_a_second_transaction_waits_for_that_of_another_process(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    hold = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('begin immediate'); print(flush=True);"
        "input(); db.rollback()"
    )
    engine = create_engine(f"sqlite:///{tmp_path / 'jobs.db'}", connect_args={"timeout": 0.3})
    command = [sys.executable, "-c", hold, str(tmp_path / "jobs.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with Session(engine) as session, pytest.raises(StorageBusy, match="another connection holds the lock") as busy:
            store.within(session, add("ours"))
        other.communicate("\n")
    assert type(busy.value) is StorageBusy
    engine.dispose()
    store.close()


def test_another_threads_open_transaction_is_waited_for(store: SqliteStore) -> None:
    begun, finish = threading.Event(), threading.Event()

    def hold() -> None:
        connection = store.connect()
        connection.execute("begin immediate")
        begun.set()
        finish.wait(SOON)
        connection.rollback()
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait(SOON)
    timer = threading.Timer(0.2, finish.set)
    timer.start()
    assert store.write(Op(add("x").run, patience=SOON)) == 1
    thread.join(SOON)
    timer.join()


def test_a_task_waits_for_a_transaction_that_another_task_of_its_loop_ends(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    async def main() -> int:
        connection.execute("begin immediate")
        writing = asyncio.create_task(store.awrite(add("x")))
        assert await asyncio.wait([writing], timeout=2 * work.SUSPICIOUS) == (set(), {writing})
        connection.rollback()
        return await writing

    assert asyncio.run(main()) == 1


def test_a_task_that_waits_for_a_transaction_of_its_own_is_told_in_the_end(
    store: SqliteStore, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "PATIENCE", 0.01)
    connection.execute("begin immediate")
    with pytest.raises(StorageBusy, match="pass it as connection="):
        asyncio.run(store.awrite(add("x")))
    connection.rollback()


def test_ones_own_open_reading_transaction_does_not_hinder(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    connection = store.connect()
    connection.execute("begin")
    connection.execute("select * from note").fetchall()
    assert store.write(add("x")) == 1
    connection.rollback()
    connection.close()
    assert store.write(Op(add("y").run)) == 2
    store.close()
