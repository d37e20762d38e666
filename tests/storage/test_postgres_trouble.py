"""Locks, lost connections and refusals: run again where that is safe, a typed error where it is not."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from holdfast.errors import (
    ConfigError,
    OutcomeUnknown,
    StorageBusy,
    StorageError,
    StorageUnavailable,
)
from holdfast.storage.port import Op, Tx
from holdfast.storage.postgres import PostgresStore, runner
from holdfast.storage.statements import Statement
from tests.patience import SOON
from tests.storage import kit


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
                both_locked.wait(SOON)
            await tx.one(touch, name=second)
            return tries

        return Op(run)

    with ThreadPoolExecutor(2) as threads:
        tries = list(threads.map(store.write, [crossing("a", "b"), crossing("b", "a")]))
    assert sorted(tries) == [1, 2]


def test_a_twin_that_commits_meanwhile_is_met_by_running_again(store: PostgresStore) -> None:
    look = Statement("look", "", "select count(*) from note where name = :name")
    seen: list[int] = []

    async def insert_unless_there(tx: Tx) -> None:
        (count,) = await tx.one(look, name="a") or (0,)
        seen.append(count)
        if not seen[1:]:
            store.write(kit.insert("a"))
        if not count:
            await tx.one(kit.INSERT, name="a")

    store.write(Op(insert_unless_there))
    assert seen == [0, 1]


def test_a_lock_that_is_never_free_ends_as_busy(store: PostgresStore, noted_dsn: str) -> None:
    with psycopg.connect(noted_dsn) as other:
        other.execute("lock table note")
        run = kit.insert("a").run
        with pytest.raises(StorageBusy):
            store.write(Op(run, patience=0.5))
        with pytest.raises(StorageBusy):
            asyncio.run(store.awrite(Op(run, patience=0.5)))
    assert store.read(kit.names()) == []


def test_the_locks_of_a_process_that_is_frozen_inside_a_transaction_become_free(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SILENCE", 1.0)
    store.write(kit.insert("a"))
    touch = Statement("touch", "", "update note set at = at + 1 where name = :name returning name")
    goes_on = threading.Event()

    async def be_frozen(tx: Tx) -> None:
        await tx.one(touch, name="a")
        is_locked.set()
        # As nothing moves in a stopped process: neither the next statement nor an end comes from it.
        assert goes_on.wait(SOON)
        await tx.one(touch, name="a")

    async def pass_by(tx: Tx) -> object:
        return await tx.one(touch, name="a")

    is_locked = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        frozen = threads.submit(store.write, Op(be_frozen))
        assert is_locked.wait(SOON)
        # A busy machine shall not freeze the others too.
        monkeypatch.setattr(runner, "SILENCE", SOON)
        try:
            assert store.write(Op(pass_by)) == ("a",)
        finally:
            goes_on.set()
        with pytest.raises(StorageUnavailable):
            frozen.result(SOON)


def test_a_killed_idle_connection_is_replaced_without_a_word(store: PostgresStore, noted_dsn: str) -> None:
    store.write(kit.insert("a"))
    with psycopg.connect(noted_dsn, autocommit=True) as admin:
        admin.execute(kit.END_OTHERS)
    store.write(kit.insert("b", single=True))
    assert store.read(kit.names()) == ["a", "b"]


def test_a_connection_lost_inside_a_transaction_is_unavailable_and_heals(store: PostgresStore, noted_dsn: str) -> None:
    async def lose(tx: Tx) -> None:
        await tx.one(kit.INSERT, name="a")
        with psycopg.connect(noted_dsn, autocommit=True) as admin:
            admin.execute(kit.END_OTHERS)
        await tx.one(kit.INSERT, name="b")

    with pytest.raises(StorageUnavailable):
        store.write(Op(lose))
    assert store.read(kit.names()) == []


def test_a_connection_lost_at_commit_leaves_the_outcome_unknown(store: PostgresStore, noted_dsn: str) -> None:
    async def lose(tx: Tx) -> None:
        await tx.one(kit.INSERT, name="a")
        with psycopg.connect(noted_dsn, autocommit=True) as admin:
            admin.execute(kit.END_OTHERS)

    with pytest.raises(OutcomeUnknown):
        store.write(Op(lose))
    with pytest.raises(OutcomeUnknown):
        asyncio.run(store.awrite(Op(lose)))
    assert store.read(kit.names()) == []


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


@pytest.mark.parametrize("dsn", ["postgresql://host/x?sslmod=off", "host=h sslmod=off"])
def test_a_misspelt_parameter_of_the_dsn_is_named(dsn: str) -> None:
    with pytest.raises(ConfigError, match="no parameter 'sslmod'; did you mean sslmode"):
        PostgresStore(dsn)


def test_what_may_be_part_of_a_password_is_not_named() -> None:
    with pytest.raises(ConfigError) as refused:
        PostgresStore("host=h password=hunter2 zebra=7")
    assert "zebra" not in str(refused.value)


def test_a_role_without_rights_is_told_which_it_needs(blank_postgres_dsn: str) -> None:
    role = f"nobody_{os.getpid()}"
    with psycopg.connect(blank_postgres_dsn, autocommit=True) as owner:
        owner.execute(f"create role {role} login")
    store = PostgresStore(make_conninfo(blank_postgres_dsn, user=role))
    try:
        with pytest.raises(StorageError, match=r'owner of the schema run "holdfast db migrate", and grant this role'):
            store.migrate()
    finally:
        store.close()
        with psycopg.connect(blank_postgres_dsn, autocommit=True) as owner:
            owner.execute(f"drop role {role}")


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


def test_what_a_cancelled_task_began_is_carried_out_and_its_connection_comes_back(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, pool_size=1, notify=False)

    async def cancel_midway() -> list[str]:
        begun, cancelled = threading.Event(), threading.Event()

        async def slow(tx: Tx) -> None:
            begun.set()
            cancelled.wait(SOON)
            await tx.one(kit.INSERT, name="a")

        task = asyncio.create_task(store.awrite(Op(slow)))
        await asyncio.to_thread(begun.wait, SOON)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cancelled.set()
        return await store.aread(kit.names())

    assert asyncio.run(cancel_midway()) == ["a"]
    store.close()


def test_an_awaiting_caller_waits_for_a_busy_store_only_so_long(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, pool_size=1, patience=0.05, notify=False)

    async def come_second() -> None:
        begun, over = threading.Event(), threading.Event()

        async def slow(tx: Tx) -> None:
            begun.set()
            over.wait(SOON)

        first = asyncio.create_task(store.awrite(Op(slow)))
        await asyncio.to_thread(begun.wait, SOON)
        with pytest.raises(StorageBusy, match="pool_size"):
            await store.awrite(kit.insert("a"))
        over.set()
        await first
        assert await store.awrite(kit.insert("b"))

    asyncio.run(come_second())
    store.close()


def test_an_awaiting_caller_of_a_closed_store_is_told(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, notify=False)

    async def come_late() -> None:
        await store.awrite(kit.insert("a"))
        store.close()
        with pytest.raises(StorageUnavailable, match="closed"):
            async with asyncio.timeout(SOON):
                await store.awrite(kit.insert("b"))

    asyncio.run(come_late())
