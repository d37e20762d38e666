"""Writes, reads and lists on a real Postgres."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing

import psycopg
import pytest

import holdfast
from holdfast.clock import SECOND, ManualClock, SystemClock
from holdfast.errors import (
    StorageError,
    StorageReadOnly,
)
from holdfast.storage.port import Op, Row, Store, Tx
from holdfast.storage.postgres import PostgresStore
from holdfast.storage.statements import Statement
from tests.postgres_server import url_of
from tests.storage import kit


def test_the_store_is_what_the_port_asks_for(store: PostgresStore) -> None:
    port: Store = store
    assert port.backend == "postgres"


def test_what_is_written_is_read(store: PostgresStore) -> None:
    assert store.write(kit.insert("a"))
    assert store.write(kit.insert("b", single=True))
    assert store.read(kit.names()) == ["a", "b"]


async def _written_and_read(store: PostgresStore) -> list[str]:
    await store.awrite(kit.insert("a"))
    await store.awrite(kit.insert("b", single=True))
    return await store.aread(kit.names())


def test_what_is_awaited_is_read(store: PostgresStore) -> None:
    assert asyncio.run(_written_and_read(store)) == ["a", "b"]


def test_a_store_serves_one_event_loop_after_another(store: PostgresStore) -> None:
    asyncio.run(store.awrite(kit.insert("a")))
    asyncio.run(store.awrite(kit.insert("b")))
    assert store.read(kit.names()) == ["a", "b"]


def test_an_operation_that_raises_leaves_nothing(store: PostgresStore) -> None:
    with pytest.raises(LookupError):
        store.write(kit.insert_then_fail("a"))
    with pytest.raises(LookupError):
        asyncio.run(store.awrite(kit.insert_then_fail("a")))
    assert store.read(kit.names()) == []


def test_a_second_write_in_a_single_operation_is_refused(store: PostgresStore) -> None:
    async def two(tx: Tx) -> None:
        await tx.one(kit.INSERT, name="a")
        await tx.one(kit.INSERT, name="b")

    with pytest.raises(RuntimeError, match="declared single"):
        store.write(Op(two, single=True))


def test_a_read_of_several_statements_sees_one_snapshot(store: PostgresStore) -> None:
    async def look_twice(tx: Tx) -> tuple[list[Row], list[Row]]:
        before = await tx.all(kit.NAMES)
        store.write(kit.insert("new"))
        return before, await tx.all(kit.NAMES)

    assert store.read(Op(look_twice)) == ([], [])


def test_a_read_cannot_write(store: PostgresStore) -> None:
    with pytest.raises(StorageReadOnly):
        store.read(kit.insert("a"))


def test_a_manual_clock_replaces_the_servers(noted_dsn: str) -> None:
    clock = ManualClock()
    store = PostgresStore(noted_dsn, clock=clock)
    clock.advance(5)
    assert store.write(kit.insert("a")) == ("a", clock.now())
    assert asyncio.run(store.awrite(kit.insert("b"))) == ("b", clock.now())
    store.close()


def test_however_wrong_the_callers_clock_is_the_server_tells_the_time(noted_dsn: str) -> None:
    class Fast(SystemClock):
        def now(self) -> int:
            return super().now() + 3600 * SECOND

    with closing(PostgresStore(noted_dsn, clock=Fast())) as store:
        row = store.write(Op(lambda tx: tx.one(kit.NOW)))
    assert row is not None
    assert abs(row[0] - SystemClock().now()) < 60 * SECOND


def test_integers_of_every_size_share_one_prepared_statement(store: PostgresStore) -> None:
    echo = Statement("echo", "", "select :n + 0")

    def echoing(n: int) -> Op[Row | None]:
        return Op(lambda tx: tx.one(echo, n=n), single=True)

    for n in (1, 70_000, 2**40):
        for _ in range(3):
            assert store.read(echoing(n)) == (n,)
    count = Statement("count", "", "select count(*) from pg_prepared_statements where statement like '%+ 0'")
    assert store.read(Op(lambda tx: tx.one(count), single=True)) == (1,)


def test_without_prepare_nothing_is_prepared(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, prepare=False, notify=False)
    for _ in range(10):
        store.read(kit.names())
    count = Statement("count", "", "select count(*) from pg_prepared_statements")
    assert store.read(Op(lambda tx: tx.one(count), single=True)) == (0,)
    store.close()


def test_a_database_error_of_no_special_kind_is_a_storage_error(store: PostgresStore) -> None:
    with pytest.raises(StorageError) as failed:
        store.write(kit.insert_then_divide_by_zero("a"))
    assert type(failed.value) is StorageError
    assert failed.value.backend == "postgres"
    assert store.read(kit.names()) == []


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_uses_connections_of_its_own(store: PostgresStore, noted_dsn: str) -> None:
    store.write(kit.insert("parent"))
    line = Op(lambda tx: tx.one(Statement("line", "", "select pg_backend_pid()")))
    before = store.write(line)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if store.write(line) != before:
                store.write(kit.insert("child"))
                store.close()
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.write(kit.insert("parent again"))
    assert store.read(kit.names()) == ["child", "parent", "parent again"]


@pytest.mark.timeout(120)
def test_a_large_flow_after_many_small_ones_is_stored_on_a_database_without_statistics(postgres_dsn: str) -> None:
    app = holdfast.App(url_of(postgres_dsn))

    @app.task
    def work(n: int) -> None: ...

    def store_flow(members: int) -> None:
        with app.flow("nightly") as flow:
            flow.map(work, range(members))

    with closing(app), psycopg.connect(postgres_dsn, autocommit=True) as connection:
        for _ in range(20):  # often enough for a prepared plan, which fits a table that is almost empty
            store_flow(2)
            connection.execute("delete from holdfast_job")
        store_flow(10_000)
        assert connection.execute("select count(*) from holdfast_job").fetchone() == (10_000,)
