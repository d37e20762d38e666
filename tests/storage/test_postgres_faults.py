"""A server that restarts, refuses, hangs or forbids; a process that is interrupted, forked or ends at once."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from holdfast.errors import StorageReadOnly, StorageUnavailable
from holdfast.storage.postgres import PostgresStore
from tests.patience import SOON
from tests.postgres_server import PostgresServer, private_server
from tests.storage import kit


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    with private_server() as server:
        with psycopg.connect(server.dsn) as connection:
            connection.execute(kit.TABLE)
        yield server


def test_a_store_outlives_a_restart_of_its_server(own_server: PostgresServer) -> None:
    store = PostgresStore(own_server.dsn)
    store.migrate()
    ear = store.wakeups.listen(["queue:a"])
    store.write(kit.insert("before"))
    asyncio.run(store.awrite(kit.insert("awaited before")))
    own_server.stop()
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            store.write(kit.insert("during"))
        with pytest.raises(StorageUnavailable):
            asyncio.run(store.awrite_list(kit.insert_list(["during"])))
    while ear.wait(0):
        pass
    own_server.start()
    store.write(kit.insert("after"))
    asyncio.run(store.awrite(kit.insert("awaited after")))
    assert store.read(kit.names()) == ["after", "awaited after", "awaited before", "before"]
    assert ear.wait(SOON)
    store.close()


def test_a_crash_of_the_server_loses_no_acknowledged_write(own_server: PostgresServer) -> None:
    store = PostgresStore(own_server.dsn)
    store.migrate()
    store.write_list(kit.insert_list(["a", "b"]))
    own_server.stop(signal.SIGQUIT)
    own_server.start()
    assert store.read(kit.names()) == ["a", "b"]
    store.close()


def test_a_server_that_turns_read_only_is_named_and_left(store: PostgresStore, noted_dsn: str) -> None:
    store.write(kit.insert("a"))
    with psycopg.connect(noted_dsn, autocommit=True) as admin:
        name = admin.info.dbname
        admin.execute(f'alter database "{name}" set default_transaction_read_only = on'.encode())
        fresh = PostgresStore(noted_dsn, notify=False)
        with pytest.raises(StorageReadOnly):
            fresh.write(kit.insert("b"))
        with pytest.raises(StorageReadOnly):
            asyncio.run(fresh.awrite(kit.insert("b", single=True)))
        admin.execute("set default_transaction_read_only = off")
        admin.execute(f'alter database "{name}" reset default_transaction_read_only'.encode())
    fresh.write(kit.insert("b"))
    assert fresh.read(kit.names()) == ["a", "b"]
    fresh.close()


def test_a_server_that_never_answers_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        store = PostgresStore(f"host=127.0.0.1 port={port} dbname=x user=y password=hunter2", connect_timeout=2)
        attempts: list[Callable[[], object]] = [
            lambda: store.write(kit.insert("a")),
            lambda: asyncio.run(store.awrite(kit.insert("a"))),
        ]
        for attempt in attempts:
            began = time.monotonic()
            with pytest.raises(StorageUnavailable) as refused:
                attempt()
            assert time.monotonic() - began < 20, "without a limit it would be for ever"
            assert "hunter2" not in str(refused.value)
        store.close()


def test_a_program_that_ends_right_after_its_write_still_wakes_others(noted_dsn: str) -> None:
    program = f"""
        from holdfast.storage.postgres import PostgresStore
        from tests.storage import kit
        PostgresStore({noted_dsn!r}).write(kit.insert("a"))
    """
    with psycopg.connect(noted_dsn, autocommit=True) as listener:
        listener.execute("listen holdfast")
        kit.run_python(program)
        assert [notice.payload for notice in listener.notifies(timeout=SOON, stop_after=1)] == ["queue:a"]


def test_without_psycopg_the_store_says_what_to_install_and_the_rest_works() -> None:
    program = """
        import sys
        sys.modules["psycopg"] = None
        import holdfast.storage.port, holdfast.storage.foreign, holdfast.storage.sqlite
        from holdfast.errors import ConfigError
        try:
            import holdfast.storage.postgres
        except ConfigError as error:
            print(error)
    """
    assert 'pip install "holdfast[postgres]"' in kit.run_python(program)
