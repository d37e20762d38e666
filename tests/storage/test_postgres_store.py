"""Writes, reads and lists on a real Postgres."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast.clock import ManualClock
from holdfast.errors import (
    ConfigError,
    OutcomeUnknown,
    SchemaMismatch,
    StorageBusy,
    StorageError,
    StorageReadOnly,
    StorageUnavailable,
)
from holdfast.storage.port import ListOp, Op, Row, Store, Tx
from holdfast.storage.postgres import PostgresStore
from holdfast.storage.statements import Statement
from tests.storage import kit

END_OTHERS = """select pg_terminate_backend(pid, 10000) from pg_stat_activity
                 where datname = current_database() and pid <> pg_backend_pid()"""


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


def test_a_second_statement_in_a_single_operation_is_refused(store: PostgresStore) -> None:
    async def two(tx: Tx) -> None:
        await tx.one(kit.NOW)
        await tx.one(kit.NOW)

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


def test_without_a_clock_the_server_tells_the_time(store: PostgresStore) -> None:
    row = store.write(Op(lambda tx: tx.one(kit.NOW)))
    assert row is not None
    assert isinstance(row[0], int)


def test_each_answers_in_order_with_none_where_nothing_matched(store: PostgresStore) -> None:
    store.write(kit.insert("b"))
    assert store.write_list(kit.insert_list(["c", "b", "a"])) == [True, False, True]
    assert store.write_list(kit.insert_list([])) == []


def test_rows_with_different_names_are_refused(store: PostgresStore) -> None:
    with pytest.raises(ValueError, match="one set of names"):
        store.write(Op(lambda tx: tx.each(kit.INSERT_EACH, [{"name": "a"}, {"other": "b"}])))


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


def test_a_deadlock_is_run_again_as_a_whole(store: PostgresStore) -> None:
    store.write_list(kit.insert_list(["a", "b"]))
    both_locked = threading.Barrier(2)
    touch = Statement("touch", "", "update note set at = at + 1 where name = :name returning name")

    def crossing(first: str, second: str) -> Op[int]:
        tries = 0

        async def run(tx: Tx) -> int:
            nonlocal tries
            tries += 1
            await tx.one(touch, name=first)
            if tries == 1:
                both_locked.wait(10)
            await tx.one(touch, name=second)
            return tries

        return Op(run)

    with ThreadPoolExecutor(2) as threads:
        tries = list(threads.map(store.write, [crossing("a", "b"), crossing("b", "a")]))
    assert sorted(tries) == [1, 2]


def test_a_lock_that_is_never_free_ends_as_busy(store: PostgresStore, noted_dsn: str) -> None:
    with psycopg.connect(noted_dsn) as other:
        other.execute("lock table note")
        run = kit.insert("a").run
        with pytest.raises(StorageBusy):
            store.write(Op(run, patience=0.05))
        with pytest.raises(StorageBusy):
            asyncio.run(store.awrite(Op(run, patience=0.05)))
    assert store.read(kit.names()) == []


def test_a_killed_idle_connection_is_replaced_without_a_word(store: PostgresStore, noted_dsn: str) -> None:
    store.write(kit.insert("a"))
    with psycopg.connect(noted_dsn, autocommit=True) as admin:
        admin.execute(END_OTHERS)
    store.write(kit.insert("b", single=True))
    assert store.read(kit.names()) == ["a", "b"]


def test_a_connection_lost_inside_a_transaction_is_unavailable_and_heals(store: PostgresStore, noted_dsn: str) -> None:
    async def lose(tx: Tx) -> None:
        await tx.one(kit.INSERT, name="a")
        with psycopg.connect(noted_dsn, autocommit=True) as admin:
            admin.execute(END_OTHERS)
        await tx.one(kit.INSERT, name="b")

    with pytest.raises(StorageUnavailable):
        store.write(Op(lose))
    assert store.read(kit.names()) == []


def test_a_connection_lost_at_commit_leaves_the_outcome_unknown(store: PostgresStore, noted_dsn: str) -> None:
    async def lose(tx: Tx) -> None:
        await tx.one(kit.INSERT, name="a")
        with psycopg.connect(noted_dsn, autocommit=True) as admin:
            admin.execute(END_OTHERS)

    with pytest.raises(OutcomeUnknown):
        store.write(Op(lose))
    with pytest.raises(OutcomeUnknown):
        asyncio.run(store.awrite(Op(lose)))
    assert store.read(kit.names()) == []


def test_a_blank_database_says_to_migrate(blank_postgres_dsn: str) -> None:
    store = PostgresStore(blank_postgres_dsn)
    with pytest.raises(SchemaMismatch, match="holdfast db migrate"):
        store.write(kit.insert("a"))
    with pytest.raises(SchemaMismatch, match="holdfast db migrate"):
        asyncio.run(store.awrite_list(kit.insert_list(["a"])))
    with pytest.raises(SchemaMismatch, match="holdfast db migrate"):
        store.read(kit.names())
    assert store.migrate() == ["0001_initial"]
    assert store.migrate() == []
    store.close()


def test_a_newer_schema_refuses_to_be_written(store: PostgresStore, noted_dsn: str) -> None:
    with psycopg.connect(noted_dsn) as connection:
        connection.execute("insert into holdfast_migration values (9999, 'from the future', 0)")
    with pytest.raises(SchemaMismatch, match="upgrade Holdfast"):
        store.write(kit.insert("a"))
    assert store.read(kit.names()) == []


def test_processes_that_migrate_at_once_do_it_once(blank_postgres_dsn: str) -> None:
    stores = [PostgresStore(blank_postgres_dsn, notify=False) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda store: store.migrate(), stores))
    assert sorted(done) == [[], [], [], ["0001_initial"]]
    for store in stores:
        store.close()


def test_a_schema_of_its_own_is_made_and_used(blank_postgres_dsn: str) -> None:
    store = PostgresStore(blank_postgres_dsn, schema="jobs", notify=False)
    store.migrate()
    assert store.describe()["schema"] == "jobs"
    with psycopg.connect(blank_postgres_dsn) as connection:
        assert connection.execute("select to_regclass('jobs.holdfast_job') is not null").fetchone() == (True,)
    store.close()


@pytest.mark.parametrize("schema", ["", "Jobs", "a b", "x; drop table y", "1a", "a" * 42])
def test_a_schema_with_another_alphabet_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        PostgresStore("dbname=x", schema=schema)


def test_a_server_that_is_down_is_a_typed_error_without_the_password() -> None:
    store = PostgresStore("postgresql://me:hunter2@127.0.0.1:1/shop")
    with pytest.raises(StorageUnavailable, match=r"127\.0\.0\.1:1/shop") as refused:
        store.write(kit.insert("a"))
    with pytest.raises(StorageUnavailable) as awaited:
        asyncio.run(store.aread(kit.names()))
    assert "hunter2" not in f"{refused.value}{refused.value.__cause__}{awaited.value}{awaited.value.__cause__}"
    store.close()


def test_an_unreadable_dsn_is_not_quoted() -> None:
    with pytest.raises(ConfigError) as refused:
        PostgresStore("postgresql://me:hunter2@host:notaport/x?bad=hunter2")
    assert "hunter2" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_closed_store_refuses(store: PostgresStore) -> None:
    store.write(kit.insert("a"))
    store.close()
    with pytest.raises(StorageUnavailable, match="closed"):
        store.write(kit.insert("b"))
    with pytest.raises(StorageUnavailable, match="closed"):
        asyncio.run(store.aread(kit.names()))


def test_a_pool_with_nothing_free_is_busy_after_its_patience(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, pool_size=1, patience=0.05, notify=False)

    async def nested(tx: Tx) -> None:
        store.read(kit.names())

    with pytest.raises(StorageBusy, match="pool_size"):
        store.write(Op(nested))
    store.close()


def test_a_database_error_of_no_special_kind_is_a_storage_error(store: PostgresStore) -> None:
    store.write(kit.insert("a"))
    with pytest.raises(StorageError) as twice:
        store.write(kit.insert("a", single=True))
    assert type(twice.value) is StorageError
    assert twice.value.backend == "postgres"


def test_describe_tells_versions_and_no_secrets(store: PostgresStore) -> None:
    facts = store.describe()
    assert facts["schema_version"] == 1
    assert str(facts["driver"]).startswith("psycopg 3")
    assert "password" not in str(facts)


def test_a_cancelled_task_gives_its_connection_up(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, pool_size=1, notify=False)
    doze = Statement("doze", "", "select pg_sleep(30)")

    async def cancel_midway() -> list[str]:
        await store.awrite(kit.insert("a"))
        started = asyncio.Event()

        async def slow(tx: Tx) -> None:
            await tx.one(kit.INSERT, name="b")
            started.set()
            await tx.one(doze)

        task = asyncio.create_task(store.awrite(Op(slow)))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await store.aread(kit.names())

    assert asyncio.run(cancel_midway()) == ["a"]
    store.close()


def test_a_forked_child_uses_connections_of_its_own(store: PostgresStore, noted_dsn: str) -> None:
    store.write(kit.insert("parent"))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.write(kit.insert("child"))
            store.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.write(kit.insert("parent again"))
    assert store.read(kit.names()) == ["child", "parent", "parent again"]


def test_threads_and_tasks_merge_their_lists(store: PostgresStore) -> None:
    def work(thread: int) -> list[bool]:
        return [ok for n in range(20) for ok in store.write_list(kit.insert_list([f"t{thread}-{n}"]))]

    async def tasks() -> list[list[bool]]:
        return await asyncio.gather(*(store.awrite_list(kit.insert_list([f"a{n}", f"b{n}"])) for n in range(100)))

    with ThreadPoolExecutor(8) as threads:
        assert all(all(part) for part in threads.map(work, range(8)))
    assert asyncio.run(tasks()) == [[True, True]] * 100
    assert len(store.read(kit.names())) == 160 + 200


def test_merged_lists_share_a_call(store: PostgresStore) -> None:
    sizes: list[int] = []

    async def counted(tx: Tx, items: object) -> list[bool]:
        assert isinstance(items, list)
        sizes.append(len(items))
        return await kit.insert_each(tx, items)

    async def tasks() -> None:
        await asyncio.gather(*(store.awrite_list(ListOp(counted, [f"n{n}"])) for n in range(50)))

    asyncio.run(tasks())
    assert sizes == [50]


def test_a_failing_list_fails_alone(store: PostgresStore) -> None:
    async def tasks() -> list[object]:
        lists = [["a"], ["bad"], ["b", "c"]]
        return await asyncio.gather(
            *(store.awrite_list(kit.insert_list(items)) for items in lists), return_exceptions=True
        )

    first, second, third = asyncio.run(tasks())
    assert (first, third) == ([True], [True, True])
    assert isinstance(second, LookupError)
    assert store.read(kit.names()) == ["a", "b", "c"]
